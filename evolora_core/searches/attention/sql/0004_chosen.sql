-- From here on `program` in data.attention_losses is a candidate's program_id where a search measured it, and all candidates
-- have their losses there.

-- chosen: whether a search took this candidate; NULL for a mechanism that was not searched for.
ALTER TABLE data.attention_programs ADD COLUMN chosen BOOLEAN;

-- Several models that answer together: their probabilities are averaged. Key: run_id, size, members. members: `programs`, the
-- best ones of a search with one training seed each, or `seeds`, the chosen one as often. loss: mean nats of a text's target;
-- alone: mean of the members'.
CREATE TABLE data.attention_ensembles (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    size VARCHAR, members VARCHAR, models BIGINT, loss DOUBLE, alone DOUBLE
);
