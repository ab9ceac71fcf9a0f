-- A trial of tuning may change any setting: what it changed, as JSON. The learning rate stood in a column of its own.
ALTER TABLE data.tuning ADD COLUMN changes VARCHAR;
-- Which of several adapters a step trained: a family's, or `all`.
ALTER TABLE data.sft_steps ADD COLUMN adapter VARCHAR;

-- Key: run_id, step. reward: share of right answers over all perturbations.
CREATE TABLE data.es_steps (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    step BIGINT, reward DOUBLE, flops BIGINT, tokens BIGINT, seconds DOUBLE
);
