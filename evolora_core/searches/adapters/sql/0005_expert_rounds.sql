-- What each round of the arm `expert-iteration` found. Key: run_id, number. items: those that were asked; answers: to all of
-- them; solved: items with a right answer, which the round learned; flops: of the round's answers and its learning.
CREATE TABLE IF NOT EXISTS data.expert_rounds (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    number BIGINT, items BIGINT, answers BIGINT, solved BIGINT, flops BIGINT
);
