-- The best number of each step, and its error. Key: run_id, step.
CREATE TABLE data.number_steps (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    step BIGINT, number DOUBLE, error DOUBLE, note VARCHAR
);

-- Every number that was tried. Key: run_id, step, place.
CREATE TABLE data.number_tries (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    step BIGINT, place BIGINT, number DOUBLE
);

-- The number that answered an item.
ALTER TABLE data.evaluations ADD COLUMN answered_with DOUBLE;
