-- Tables that every search shares. They live in the schema `data`, since views of users have the same names.
--
-- A stage writes one Parquet file per table; recording adds the slice columns (suite, run_id, condition, seed, stage).
-- Natural keys stand in the comments, not as constraints: a slice (run_id, stage) is always replaced as a whole.

CREATE SCHEMA data;

-- The resolved configuration of each suite. Key: suite. host: NULL where a suite has none.
CREATE TABLE data.suites (
    suite VARCHAR, name VARCHAR, host VARCHAR, seeds BIGINT[], conditions VARCHAR[], config VARCHAR
);

-- One row per recorded stage, from its manifest. Key: run_id, stage. The stage that judges a condition with a seed is
-- called `evaluate` in every search.
CREATE TABLE data.stages (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    folder VARCHAR, identity VARCHAR, seconds DOUBLE, flops BIGINT, manifest VARCHAR
);

-- Key: run_id, stage, purpose. flops: algorithmic budget; executed_flops: what the engine did.
CREATE TABLE data.compute (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    purpose VARCHAR, flops BIGINT, executed_flops BIGINT, tokens BIGINT, seconds DOUBLE
);

-- How many items were drawn. Key: run_id, split, family, depth.
CREATE TABLE data.splits (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    split VARCHAR, family VARCHAR, depth VARCHAR, n BIGINT, sha256 VARCHAR
);

-- Key: run_id, split_a, split_b. shared: canonical prompts that both hold.
CREATE TABLE data.leaks (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    split_a VARCHAR, split_b VARCHAR, shared BIGINT
);

-- Every graded answer. Key: run_id, arm, split, task_id. The arm named like its condition is the headline; others are
-- called CONDITION:VARIANT. A search may add columns that say more of an answer; packs carry those too.
CREATE TABLE data.evaluations (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    split VARCHAR, task_id VARCHAR, family VARCHAR, depth VARCHAR, arm VARCHAR,
    prompt VARCHAR, answer VARCHAR, score DOUBLE, correct BOOLEAN, reason VARCHAR,
    prompt_tokens BIGINT, answer_tokens BIGINT, flops BIGINT
);

-- Accuracy over seeds with its bootstrap interval. Key: suite, arm, split, family; family '*' is the whole split.
CREATE TABLE data.accuracies (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    arm VARCHAR, split VARCHAR, family VARCHAR, seeds BIGINT, n BIGINT, acc DOUBLE, lo DOUBLE, hi DOUBLE
);

-- The declared comparisons. Key: suite, split, a, b, routing. routing: the variant of both arms that is compared, or
-- `headline`.
CREATE TABLE data.comparisons (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    split VARCHAR, a VARCHAR, b VARCHAR, n BIGINT, seeds BIGINT, diff DOUBLE, lo DOUBLE, hi DOUBLE,
    p DOUBLE, p_holm DOUBLE, verdict VARCHAR, note VARCHAR, routing VARCHAR
);

-- What `evolora bench` measured; the files are EVOLORA_HOME/bench/NAME-TIME.json.
CREATE TABLE data.benchmarks (
    bench VARCHAR, measured VARCHAR, measure VARCHAR, ours DOUBLE, other DOUBLE, ratio DOUBLE, unit VARCHAR, note VARCHAR
);
