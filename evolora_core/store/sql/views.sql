-- What users and packs query of every search. Columns may be added, never renamed.
--
-- Only the headline arm of a run is shown, the one named like its condition; `arm_accuracy` has the others.

CREATE OR REPLACE VIEW suites AS FROM data.suites;

-- Seeds for which every condition of the suite has been evaluated: means over seeds compare the same seeds. In every
-- search the stage that judges a condition with a seed is called `evaluate`.
CREATE OR REPLACE VIEW complete_seeds AS
WITH expected AS (
    SELECT suite, unnest(conditions) AS condition FROM suites
    UNION
    SELECT suite, condition FROM data.stages WHERE stage = 'evaluate'
),
evaluated AS (SELECT DISTINCT suite, condition, seed FROM data.stages WHERE stage = 'evaluate')
SELECT e.suite, e.seed
FROM evaluated AS e
GROUP BY e.suite, e.seed
HAVING count(*) = (SELECT count(*) FROM expected AS x WHERE x.suite = e.suite);

-- Conditions that could not be run with a seed, since their budget is too small. They have no answers, and the seed is
-- complete without them.
CREATE OR REPLACE VIEW not_run AS
SELECT suite, run_id, condition, seed, json_extract_string(manifest, '$.summary.not_run') AS reason
FROM data.stages WHERE stage = 'evaluate' AND json_extract_string(manifest, '$.summary.not_run') IS NOT NULL;

-- What an item is called across seeds: the same wherever its seed was run. Rows that came in a shard have it already.
CREATE OR REPLACE MACRO item_key(prompt, task_id) AS CASE
    WHEN regexp_full_match(coalesce(prompt, task_id), '[0-9a-f]{16}') THEN coalesce(prompt, task_id)
    ELSE substr(sha256(coalesce(prompt, task_id)), 1, 16) END;

-- Wilson score intervals, z = 1.959963984540054. An item whose answer never came (too long) is in it, as wrong.
CREATE OR REPLACE MACRO wilson_lo(k, n) AS CASE WHEN n = 0 OR k = 0 THEN 0.0 ELSE
    (k / n + 1.920729410347062 / n - 1.959963984540054 * sqrt(k / n * (1 - k / n) / n + 0.960364705173531 / (n * n)))
    / (1 + 3.841458820694124 / n) END;
CREATE OR REPLACE MACRO wilson_hi(k, n) AS CASE WHEN n = 0 OR k = n THEN 1.0 ELSE
    (k / n + 1.920729410347062 / n + 1.959963984540054 * sqrt(k / n * (1 - k / n) / n + 0.960364705173531 / (n * n)))
    / (1 + 3.841458820694124 / n) END;

-- One row per run and cell; every item counts once. Totals of a split are in split_accuracy.
CREATE OR REPLACE VIEW holdout_accuracy AS
WITH counts AS (
    SELECT suite, run_id, condition, seed, split, family, depth, count(*) AS n, count(*) FILTER (WHERE correct) AS correct
    FROM data.evaluations
    WHERE arm = condition
    GROUP BY ALL
)
SELECT *, correct / n AS acc, wilson_lo(correct, n) AS lo, wilson_hi(correct, n) AS hi FROM counts;

-- One row per run and split.
CREATE OR REPLACE VIEW split_accuracy AS
WITH counts AS (
    SELECT suite, run_id, condition, seed, split, sum(n)::BIGINT AS n, sum(correct)::BIGINT AS correct
    FROM holdout_accuracy
    GROUP BY ALL
)
SELECT *, correct / n AS acc, wilson_lo(correct, n) AS lo, wilson_hi(correct, n) AS hi FROM counts;

-- One row per run, arm and split: every routing that was evaluated.
CREATE OR REPLACE VIEW arm_accuracy AS
WITH counts AS (
    SELECT suite, run_id, condition, seed, arm, split, count(*) AS n, count(*) FILTER (WHERE correct) AS correct,
        avg(flops) AS flops_per_answer
    FROM data.evaluations
    GROUP BY ALL
)
SELECT *, correct / n AS acc, wilson_lo(correct, n) AS lo, wilson_hi(correct, n) AS hi FROM counts;

-- Accuracy over the complete seeds with hierarchical bootstrap intervals; family '*' is the whole split.
CREATE OR REPLACE VIEW accuracy AS
SELECT suite, split_part(arm, ':', 1) AS condition, arm, split, family, seeds, n, acc, lo, hi FROM data.accuracies;

-- The declared comparisons. p: sign-flip test over seeds; p_holm: adjusted, the one that the verdict asks for. regime: its
-- name in the words of the suite, NULL where that names none.
CREATE OR REPLACE VIEW comparison AS
WITH declared AS (
    SELECT suite, unnest(from_json(json_extract(config, '$.evaluation.comparisons'),
        '[{"split": "VARCHAR", "a": "VARCHAR", "b": "VARCHAR", "routing": "VARCHAR", "regime": "VARCHAR"}]'),
        recursive := true)
    FROM data.suites
),
named AS (
    SELECT suite, split, a, b, coalesce(routing, 'headline') AS routing, any_value(regime) AS regime
    FROM declared GROUP BY ALL
)
SELECT suite, split, a, b, n, diff, lo, hi, p, verdict, p_holm, seeds, note, routing, regime
FROM data.comparisons LEFT JOIN named USING (suite, split, a, b, routing);

CREATE OR REPLACE VIEW compute AS
SELECT run_id, condition, seed, stage, purpose, flops, tokens, seconds, executed_flops, suite FROM data.compute;

-- The other tables, under their own names.
CREATE OR REPLACE VIEW stages AS FROM data.stages;
CREATE OR REPLACE VIEW splits AS FROM data.splits;
CREATE OR REPLACE VIEW leaks AS FROM data.leaks;
CREATE OR REPLACE VIEW evaluations AS FROM data.evaluations;
CREATE OR REPLACE VIEW accuracies AS FROM data.accuracies;
CREATE OR REPLACE VIEW comparisons AS FROM data.comparisons;
CREATE OR REPLACE VIEW benchmarks AS FROM data.benchmarks;

-- What can be compared over time and machines: of rows with two sides, the ratio, and that of the same measure with the same
-- settings (`note`) the time before. change: by how much the ratio grew since, NULL the first time.
CREATE OR REPLACE VIEW benchmark_history AS
SELECT bench, note, measure, measured, ratio, lag(ratio) OVER same AS before, ratio / lag(ratio) OVER same - 1 AS change,
    unit, cores, processor, torch, version, code
FROM data.benchmarks WHERE ratio IS NOT NULL
WINDOW same AS (PARTITION BY bench, note, measure ORDER BY measured);

-- Of searches that measure whole genomes: a candidate that failed has a NULL score.
CREATE OR REPLACE VIEW candidate AS
SELECT run_id, candidate, generation, operator, genome, status, reject_stage, reason, score, slot, genome_id, fresh, flops,
    suite, condition, seed
FROM data.candidates;

CREATE OR REPLACE VIEW candidate_lineage AS
SELECT run_id, child, parent, role, suite, condition, seed FROM data.candidate_parents;
