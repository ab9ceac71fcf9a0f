-- An arm's answers, under its first router, to the items in distribution in every form of their prompts (`plain`: as in
-- `evaluations`). correct and answer are NULL where an item was not asked in a form; `reason` says why. Key: run_id, form,
-- task_id. organelle: who was asked, as in `evaluations`; -1 is the bare host, NULL where nobody was.
CREATE TABLE IF NOT EXISTS data.variants (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    form VARCHAR, task_id VARCHAR, organelle BIGINT, answer VARCHAR, correct BOOLEAN, reason VARCHAR
);
