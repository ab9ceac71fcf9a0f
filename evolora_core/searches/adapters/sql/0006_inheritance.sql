-- Whose weights the founders of a family that arrived began with. Key: run_id, generation, niche, donor. donor: `host`, `sum`,
-- or the number of an organelle. correct: right answers to the `items` that every possible donor was asked; none are asked
-- where the donor is drawn. chosen: whether it is the donor.
CREATE TABLE IF NOT EXISTS data.inheritance (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    generation BIGINT, niche VARCHAR, donor VARCHAR, items BIGINT, correct BIGINT, chosen BOOLEAN
);
