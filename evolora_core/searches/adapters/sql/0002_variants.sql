-- An arm's answers, under its first router, to the items in distribution in every form of their prompts (`plain`: as in
-- `evaluations`). correct and answer are NULL where an item was not asked in a form; `reason` says why. Key: run_id, form,
-- task_id.
CREATE TABLE IF NOT EXISTS data.variants (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    form VARCHAR, task_id VARCHAR, answer VARCHAR, correct BOOLEAN, reason VARCHAR
);
