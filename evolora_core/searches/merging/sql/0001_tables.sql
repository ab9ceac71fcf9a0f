-- The domain of an answer; `family` is who grades it.
ALTER TABLE data.evaluations ADD COLUMN domain VARCHAR;

-- What the search items say of a candidate, by domain. Key: run_id, candidate, domain. score: mean log-likelihood of a gold
-- token (nats); solved: share of the items whose gold answer greedy decoding gives.
CREATE TABLE data.candidate_domains (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    candidate BIGINT, domain VARCHAR, score DOUBLE, solved DOUBLE
);

-- Key: run_id, generation. best: of the run so far; mean: of the generation; diversity: mean share of search items on which
-- two candidates of the generation differ in being solved. evaluations, flops: of the run so far.
CREATE TABLE data.merge_generations (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    generation BIGINT, candidates BIGINT, failed BIGINT, best DOUBLE, mean DOUBLE, diversity DOUBLE, evaluations BIGINT,
    flops BIGINT
);

-- What a condition chose. Key: run_id. candidate: NULL where the arm has none. kind: recipe, weights or ensemble.
-- search_score, selection_score: mean log-likelihood of a gold token, weighted over domains.
CREATE TABLE data.merge_choices (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    arm_kind VARCHAR, space VARCHAR, kind VARCHAR, candidate BIGINT, genome VARCHAR, genome_id VARCHAR,
    evaluations BIGINT, search_score DOUBLE, selection_score DOUBLE, note VARCHAR
);

-- The models that are merged. Key: run_id, parent. drift: |τ| / |θ₀|, the length of the change against that of the base.
CREATE TABLE data.merge_parents (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    parent VARCHAR, domain VARCHAR, drift DOUBLE, steps BIGINT, loss DOUBLE, weights_sha256 VARCHAR
);
