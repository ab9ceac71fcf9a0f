-- seconds: processor time of a candidate's examination and its trainings before the final, refused ones too; NULL before this
-- was counted. final_score: a finalist's gain over all its training seeds, by which one is chosen; NULL of all other candidates.
ALTER TABLE data.attention_programs ADD COLUMN seconds DOUBLE;
ALTER TABLE data.attention_programs ADD COLUMN final_score DOUBLE;
ALTER TABLE data.attention_programs ADD COLUMN final_lo DOUBLE;
ALTER TABLE data.attention_programs ADD COLUMN final_hi DOUBLE;
