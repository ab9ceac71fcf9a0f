-- The numbers of the fits over the measured sizes, N being parameters without the embedding. intercept: of form 1, the loss where
-- ln N = 0. Form 2, L = floor + amplitude N^-alpha with the run's floor: NULL without a law, or where a loss is too near its floor.
ALTER TABLE data.attention_fits ADD COLUMN intercept DOUBLE;
ALTER TABLE data.attention_fits ADD COLUMN floor DOUBLE;
ALTER TABLE data.attention_fits ADD COLUMN amplitude DOUBLE;
ALTER TABLE data.attention_fits ADD COLUMN alpha DOUBLE;
