-- Every program of the exhaustive table at every size with every seed. Key: run_id, program, size, train_seed. loss: mean
-- nats of a text's target, NULL where the program was refused, and `reason` says why. flops: of a training step. seconds:
-- processor time of the whole evaluation.
CREATE TABLE data.attention_table_programs (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    program BIGINT, genome VARCHAR, size VARCHAR, train_seed BIGINT, loss DOUBLE, flops BIGINT, parameters BIGINT,
    seconds DOUBLE, reason VARCHAR
);

-- What a program of the table is worth. Key: run_id, program. score: gain over the baseline, program 0, predicted at three
-- times the largest size from the first training seed, NULL where it was refused or failed a guard; truth: the same from
-- the other seeds, no guard asked.
CREATE TABLE data.attention_table_scores (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    program BIGINT, genome VARCHAR, score DOUBLE, truth DOUBLE, reason VARCHAR
);

-- Replayed runs on the table. Key: run_id, strategy, programs (distinct ones that a run has measured). regret: the greatest
-- score less the best so far, nats; lo, hi: 10th and 90th percentile of the runs. within: share of the runs that have at most
-- a tenth of the gain from the baseline to the optimum left. truth_*: the same of the truth of what a run would choose.
CREATE TABLE data.attention_regrets (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    strategy VARCHAR, programs BIGINT, runs BIGINT, regret DOUBLE, regret_lo DOUBLE, regret_hi DOUBLE, within DOUBLE,
    within_lo DOUBLE, within_hi DOUBLE, truth_regret DOUBLE, truth_within DOUBLE, truth_within_lo DOUBLE,
    truth_within_hi DOUBLE
);

-- Single replayed runs where the declared effect is read. Key: run_id, strategy, run. program: what it would choose. near:
-- at most a tenth of the gain is left; until: programs until that held, NULL if never. measured: programs until it ended.
CREATE TABLE data.attention_replays (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    strategy VARCHAR, run BIGINT, read_at BIGINT, measured BIGINT, program BIGINT, score DOUBLE, truth DOUBLE, regret DOUBLE,
    truth_regret DOUBLE, near BOOLEAN, near_truth BOOLEAN, until BIGINT
);
