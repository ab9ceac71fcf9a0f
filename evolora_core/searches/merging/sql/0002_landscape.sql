-- Every distinct model of the space of layer routes. Key: run_id, model. Scores: mean log-likelihood of a gold token, NULL
-- where a model failed; *_solved: share of items solved. domains: JSON list of search scores; solved: a bit per search item.
CREATE TABLE data.landscape (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    model BIGINT, genes VARCHAR, genome_id VARCHAR, search_score DOUBLE, test_score DOUBLE, search_solved DOUBLE,
    test_solved DOUBLE, domains VARCHAR, solved VARCHAR, reason VARCHAR
);

-- Replayed runs on the landscape. Key: run_id, strategy, evaluations. regret: optimum less the best so far, in nats; `within`:
-- share of the runs that have at most a tenth of the gain from the best parent to the optimum left.
CREATE TABLE data.regrets (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    strategy VARCHAR, evaluations BIGINT, runs BIGINT, regret DOUBLE, regret_lo DOUBLE, regret_hi DOUBLE, within DOUBLE,
    within_lo DOUBLE, within_hi DOUBLE
);

-- What the landscape holds. Key: run_id, what. search_score, test_score, test_solved of: each parent's layers in the base's
-- embeddings, the optimum on the search items, the optimum on the test items.
CREATE TABLE data.landscape_marks (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    what VARCHAR, model BIGINT, genes VARCHAR, search_score DOUBLE, test_score DOUBLE, test_solved DOUBLE
);
