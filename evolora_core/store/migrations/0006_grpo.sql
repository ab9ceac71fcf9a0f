-- Key: run_id, step. reward: share of right answers; informative: share of groups whose rewards differ; entropy: mean of
-- the answers' tokens, in nats.
CREATE TABLE data.grpo_steps (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    step BIGINT, reward DOUBLE, informative DOUBLE, entropy DOUBLE, learning_rate DOUBLE,
    flops BIGINT, tokens BIGINT, seconds DOUBLE
);
