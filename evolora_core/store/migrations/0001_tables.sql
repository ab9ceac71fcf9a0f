-- Tables of the store. They live in the schema `data`, since some views of users have the same names (compute, lineage).
--
-- A stage writes one Parquet file per table; recording adds the slice columns (suite, run_id, condition, seed, stage).
-- Natural keys stand in the comments, not as constraints: a slice (run_id, stage) is always replaced as a whole.
-- Amounts of energy named BIGINT are micro-energy; the views show units. `generations` holds units already.

CREATE SCHEMA data;

-- The resolved configuration of each suite. Key: suite.
CREATE TABLE data.suites (
    suite VARCHAR, name VARCHAR, host VARCHAR, seeds BIGINT[], conditions VARCHAR[], config VARCHAR
);

-- One row per recorded stage, from its manifest. Key: run_id, stage.
CREATE TABLE data.stages (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    folder VARCHAR, identity VARCHAR, seconds DOUBLE, flops BIGINT, manifest VARCHAR
);

-- Key: run_id, stage, purpose. flops: algorithmic budget; executed_flops: what the engine did.
CREATE TABLE data.compute (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    purpose VARCHAR, flops BIGINT, executed_flops BIGINT, tokens BIGINT, seconds DOUBLE
);

-- Key: run_id, split, family, depth.
CREATE TABLE data.splits (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    split VARCHAR, family VARCHAR, depth VARCHAR, n BIGINT, sha256 VARCHAR
);

-- Key: run_id, split_a, split_b. shared: canonical prompts that both hold.
CREATE TABLE data.leaks (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    split_a VARCHAR, split_b VARCHAR, shared BIGINT
);

-- Key: run_id, key.
CREATE TABLE data.calibration (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    key VARCHAR, value DOUBLE, note VARCHAR
);

-- Key: run_id, episode.
CREATE TABLE data.episodes (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    generation BIGINT, episode BIGINT, organelle BIGINT, slot BIGINT, task_id VARCHAR, family VARCHAR, depth VARCHAR,
    sample BIGINT, reward BIGINT, cost BIGINT, score DOUBLE, correct BOOLEAN, prompt_tokens BIGINT, answer_tokens BIGINT
);

-- Key: run_id, generation.
CREATE TABLE data.generations (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    generation BIGINT, population BIGINT, episodes BIGINT, accuracy DOUBLE, mean_reward DOUBLE, mean_cost DOUBLE,
    mean_net DOUBLE, mean_roi DOUBLE, energy_total DOUBLE, births BIGINT, deaths BIGINT, merges BIGINT,
    qd_coverage DOUBLE, qd_score DOUBLE, seconds DOUBLE
);

-- Key: run_id, organelle. delta_norm 0 is an adapter that does nothing; died NULL is one that lives.
CREATE TABLE data.organelles (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    organelle BIGINT, slot BIGINT, rank BIGINT, niche VARCHAR, origin VARCHAR, born BIGINT, died BIGINT, cause VARCHAR,
    balance BIGINT, delta_norm DOUBLE, learning_rate DOUBLE, temperature DOUBLE
);

-- Key: run_id, child, parent.
CREATE TABLE data.lineage (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    child BIGINT, parent BIGINT, role VARCHAR, generation BIGINT, weight DOUBLE
);

-- Postings of the double-entry ledger, in micro-energy. They sum to zero.
CREATE TABLE data.ledger (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    generation BIGINT, entry VARCHAR, account VARCHAR, amount BIGINT
);

-- Key: run_id, generation, child.
CREATE TABLE data.assimilations (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    generation BIGINT, child BIGINT, parent_a BIGINT, parent_b BIGINT, family VARCHAR, depth VARCHAR, method VARCHAR,
    gain DOUBLE, n BIGINT, looks BIGINT, uplift DOUBLE, p DOUBLE, worst_drop DOUBLE, accepted BOOLEAN, reason VARCHAR
);

-- Key: run_id, generation, family, depth, cost_bin.
CREATE TABLE data.archive (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    generation BIGINT, family VARCHAR, depth VARCHAR, cost_bin BIGINT, organelle BIGINT, objective DOUBLE
);

-- Key: run_id, step.
CREATE TABLE data.sft_steps (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    step BIGINT, loss DOUBLE, learning_rate DOUBLE, tokens BIGINT, flops BIGINT
);

-- Key: run_id, arm, trial.
CREATE TABLE data.tuning (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    arm VARCHAR, trial BIGINT, learning_rate DOUBLE, selection_acc DOUBLE, flops BIGINT
);

-- Key: run_id, arm, split, task_id. The arm named like its condition is the headline; others are further routings.
CREATE TABLE data.evaluations (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    split VARCHAR, task_id VARCHAR, family VARCHAR, depth VARCHAR, arm VARCHAR, organelle BIGINT,
    prompt VARCHAR, answer VARCHAR, score DOUBLE, correct BOOLEAN, reason VARCHAR,
    prompt_tokens BIGINT, answer_tokens BIGINT, flops BIGINT
);

-- Accuracy over seeds with its bootstrap interval. Key: suite, condition, split, family; family '*' is the whole split.
CREATE TABLE data.accuracies (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    arm VARCHAR, split VARCHAR, family VARCHAR, seeds BIGINT, n BIGINT, acc DOUBLE, lo DOUBLE, hi DOUBLE
);

-- The declared comparisons. Key: suite, split, a, b.
CREATE TABLE data.comparisons (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    split VARCHAR, a VARCHAR, b VARCHAR, n BIGINT, seeds BIGINT, diff DOUBLE, lo DOUBLE, hi DOUBLE,
    p DOUBLE, p_holm DOUBLE, verdict VARCHAR, note VARCHAR
);
