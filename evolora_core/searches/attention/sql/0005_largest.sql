-- The 95 % interval of `largest`, which is the paired difference to the baseline at the largest size of the search (positive:
-- worse). From here on the score of a candidate, and score and truth of the exhaustive table, are gains at that size.
ALTER TABLE data.attention_fits ADD COLUMN largest_lo DOUBLE;
ALTER TABLE data.attention_fits ADD COLUMN largest_hi DOUBLE;
