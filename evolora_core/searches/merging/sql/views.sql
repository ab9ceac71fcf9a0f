-- What users and packs query of the merge search, beside the views of every search. Columns may be added, never renamed.
--
-- Scores of search and selection are mean log-likelihoods of a gold token in nats, weighted over domains: 0 is perfect.
-- Test scores are exact match.

CREATE OR REPLACE VIEW merge_generation AS
SELECT run_id, generation, best, mean, diversity, candidates, failed, evaluations, flops, suite, condition, seed
FROM data.merge_generations;

CREATE OR REPLACE VIEW merge_choice AS
SELECT run_id, arm_kind, space, kind, candidate, genome, genome_id, evaluations, search_score, selection_score, note, suite,
    condition, seed
FROM data.merge_choices;

CREATE OR REPLACE VIEW merge_parent AS
SELECT run_id, parent, domain, drift, steps, loss, weights_sha256, suite, seed FROM data.merge_parents;

CREATE OR REPLACE VIEW candidate_domain AS
SELECT run_id, candidate, domain, score, solved, suite, condition, seed FROM data.candidate_domains;

-- One row per arm, means over the complete seeds. flops, seconds: of all that the arm itself did, its test left out.
CREATE OR REPLACE VIEW merge_table AS
WITH chosen AS (
    SELECT suite, condition AS arm, count(*) AS seeds, avg(evaluations) AS evaluations, avg(search_score) AS search_score,
        avg(selection_score) AS selection_score, any_value(arm_kind) AS arm_kind, any_value(space) AS space
    FROM data.merge_choices JOIN complete_seeds USING (suite, seed) GROUP BY ALL
), tested AS (
    SELECT suite, condition AS arm, acc, lo, hi FROM accuracy WHERE arm = condition AND family = '*' AND split = 'test'
), spent AS (
    SELECT suite, condition AS arm, seed, sum(flops) AS flops, sum(seconds) AS seconds
    FROM data.compute JOIN complete_seeds USING (suite, seed) WHERE purpose <> 'evaluation' GROUP BY ALL
), cost AS (
    SELECT suite, arm, avg(flops) AS flops, avg(seconds) AS seconds FROM spent GROUP BY ALL
)
SELECT suite, arm, seeds, evaluations, search_score, acc AS test_score, lo AS test_lo, hi AS test_hi,
    coalesce(flops, 0) AS flops, coalesce(seconds, 0) AS seconds, selection_score, arm_kind, space
FROM chosen LEFT JOIN tested USING (suite, arm) LEFT JOIN cost USING (suite, arm);

-- Exact match on the sealed test by domain, all complete seeds together. lo and hi are Wilson's over the items of these
-- seeds alone, of which one that several seeds share counts once (n); packs have wider ones, for further seeds too.
CREATE OR REPLACE VIEW merge_domains AS
WITH counts AS (
    SELECT suite, condition AS arm, domain, avg(correct::INTEGER) AS score,
        count(DISTINCT item_key(prompt, task_id)) AS n
    FROM data.evaluations JOIN complete_seeds USING (suite, seed)
    WHERE arm = condition AND domain IS NOT NULL AND split = 'test' GROUP BY ALL
)
SELECT suite, arm, domain, score, wilson_lo(score * n, n) AS lo, wilson_hi(score * n, n) AS hi, n FROM counts;

-- Regret curves of replayed runs; regret_lo and regret_hi are the 10th and 90th percentile of the runs.
CREATE OR REPLACE VIEW regret AS
SELECT run_id, strategy, evaluations, runs, regret, regret_lo, regret_hi, within, within_lo, within_hi, suite, seed
FROM data.regrets;

CREATE OR REPLACE VIEW landscape_mark AS
SELECT run_id, what, model, genes, search_score, test_score, test_solved, suite, seed FROM data.landscape_marks;

CREATE OR REPLACE VIEW landscape AS
SELECT run_id, model, genes, genome_id, search_score, test_score, search_solved, test_solved, reason, suite, seed
FROM data.landscape;

CREATE OR REPLACE VIEW law_fit AS SELECT * EXCLUDE (condition, stage) FROM data.law_fits;
CREATE OR REPLACE VIEW law_point AS SELECT * EXCLUDE (condition, stage) FROM data.law_points;
CREATE OR REPLACE VIEW merge_law AS SELECT * EXCLUDE (condition, stage) FROM data.merge_law;

-- What the stages before any merge found: items drawn, prompts that two splits share, and how far each parent is from the base.
CREATE OR REPLACE VIEW merge_calibration AS
SELECT suite, condition, seed, stage, 'items: ' || split AS what, sum(n)::DOUBLE AS value, '' AS note
FROM data.splits GROUP BY ALL
UNION ALL
SELECT suite, condition, seed, stage, 'prompts in two splits', sum(shared)::DOUBLE, '' FROM data.leaks GROUP BY ALL
UNION ALL
SELECT suite, condition, seed, stage, 'drift', drift, 'length of the change against that of the base' FROM data.merge_parents
UNION ALL
SELECT suite, condition, seed, stage, 'loss', loss, format('after {} steps of training, nats', steps)
FROM data.merge_parents WHERE loss IS NOT NULL;
