-- How a contest between the learners of a niche came out. Key: run_id, generation, organelle. learning_rate: of the first
-- generation. correct: right answers to the `items` that all of them were asked. p: one-sided exact paired test of the best
-- being better. fate: `goes on`, or what becomes of who was beaten (`copies`, `restarts`, `retires`).
CREATE TABLE IF NOT EXISTS data.contests (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    generation BIGINT, niche VARCHAR, organelle BIGINT, learning_rate DOUBLE, items BIGINT, correct BIGINT, p DOUBLE,
    fate VARCHAR
);
