-- An arm's one adapter (routing `single`) with its ΔW scaled after training: right answers to the same items at each
-- strength; 1 is as trained, 0 the bare host (the condition frozen). Key: run_id, strength, split.
CREATE TABLE data.frontier (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    strength DOUBLE, split VARCHAR, n BIGINT, correct BIGINT
);
