-- Candidates of searches that measure whole genomes. Key: run_id, candidate. score: higher is better, NULL where it failed;
-- reject_stage and reason say why. fresh: false where an equal genome was measured before in the run, at no cost.
CREATE TABLE IF NOT EXISTS data.candidates (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    candidate BIGINT, generation BIGINT, slot BIGINT, operator VARCHAR, genome VARCHAR, genome_id VARCHAR,
    status VARCHAR, reject_stage VARCHAR, reason VARCHAR, score DOUBLE, fresh BOOLEAN, flops BIGINT
);

-- Key: run_id, child, parent, role.
CREATE TABLE IF NOT EXISTS data.candidate_parents (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    child BIGINT, parent BIGINT, role VARCHAR
);
