-- Tables of the adapter search, beside those that every search shares (evolora_core/store/sql).
--
-- Amounts of energy named BIGINT are micro-energy; the views show units. `generations` holds units already.

-- Which organelle was asked; -1 is the bare host, -2 the host after solved examples.
ALTER TABLE data.evaluations ADD COLUMN organelle BIGINT;

-- Key: run_id, key. A note says `this machine` where the value tells of the machine and not of the search.
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

-- Key: run_id, adapter, step. adapter: which of several a step trained, a family's, or `all`.
CREATE TABLE data.sft_steps (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    step BIGINT, loss DOUBLE, learning_rate DOUBLE, tokens BIGINT, flops BIGINT, adapter VARCHAR
);

-- Key: run_id, step. reward: share of right answers over all perturbations.
CREATE TABLE data.es_steps (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    step BIGINT, reward DOUBLE, flops BIGINT, tokens BIGINT, seconds DOUBLE
);

-- Key: run_id, step. reward: share of right answers; informative: share of groups whose rewards differ; entropy: mean of
-- the answers' tokens, in nats.
CREATE TABLE data.grpo_steps (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    step BIGINT, reward DOUBLE, informative DOUBLE, entropy DOUBLE, learning_rate DOUBLE,
    flops BIGINT, tokens BIGINT, seconds DOUBLE
);

-- Key: run_id, arm, trial. changes: the settings that the trial changed, as JSON. A trial is judged on the holdout of its
-- seed (holdout_acc); in older stores the selection split, which chose its routes too, judged it (selection_acc).
CREATE TABLE data.tuning (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    arm VARCHAR, trial BIGINT, learning_rate DOUBLE, selection_acc DOUBLE, flops BIGINT, changes VARCHAR,
    holdout_acc DOUBLE
);

-- An arm's one adapter (routing `single`) with its ΔW scaled after training: right answers to the same items at each
-- strength; 1 is as trained, 0 the bare host (the condition frozen). Key: run_id, strength, split.
CREATE TABLE data.frontier (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    strength DOUBLE, split VARCHAR, n BIGINT, correct BIGINT
);
