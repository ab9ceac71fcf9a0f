-- What users and packs query of the adapter search, beside the views of every search. Columns may be added, never renamed.
--
-- Energies are in units (one unit = the FLOPs of one mean base answer).

-- Whether the router of an arm asked the bare host for every item of a split: no adapter led it by a standard error, or
-- none was chosen for such families. Such an arm keeps what the host knows because it is the host. Complete seeds alone.
CREATE OR REPLACE VIEW bare_seed AS
SELECT suite, condition, arm, split, seed, bool_and(organelle = -1) AS alone
FROM data.evaluations JOIN complete_seeds USING (suite, seed) WHERE condition <> 'frozen' GROUP BY ALL;

CREATE OR REPLACE VIEW bare_host AS
SELECT suite, condition, arm, split, count(*) FILTER (alone) AS bare, count(*) AS seeds FROM bare_seed GROUP BY ALL;

-- Which side of a declared comparison is the bare host, and in how many of its seeds, in words; no row where neither is.
CREATE OR REPLACE VIEW comparison_bare AS
WITH compared AS (
    SELECT c.suite, c.split, c.a, c.b, c.routing, condition, arm, count(*) FILTER (alone) AS bare, count(*) AS seeds
    FROM comparison AS c JOIN bare_seed AS s USING (suite, split)
    WHERE condition IN (a, b) AND arm IN (condition, condition || ':' || routing) AND NOT EXISTS (
        FROM not_run AS n WHERE n.suite = c.suite AND n.seed = s.seed AND n.condition IN (c.a, c.b)
    )
    GROUP BY ALL
), sides AS ( -- an arm that has no such router is there under its headline name
    SELECT suite, split, a, b, routing, condition, arg_max(bare, length(arm)) AS bare, any_value(seeds) AS seeds
    FROM compared GROUP BY ALL
)
SELECT suite, split, a, b, routing,
    string_agg(format('{} in {} of {} seeds', condition, bare, seeds), ', ' ORDER BY condition = b) AS bare
FROM sides WHERE bare > 0 GROUP BY ALL;

CREATE OR REPLACE VIEW generation_summary AS
SELECT run_id, generation, population, episodes, mean_reward, mean_cost, mean_net, mean_roi, energy_total, births, deaths,
    merges, qd_coverage, qd_score, accuracy, suite, condition, seed
FROM data.generations;

-- What all accounts hold together after a generation: 0, or the ledger is broken.
CREATE OR REPLACE VIEW ledger_balance AS
WITH moved AS (
    SELECT suite, run_id, condition, seed, generation, sum(amount)::BIGINT AS amount FROM data.ledger GROUP BY ALL
)
SELECT run_id, generation, sum(amount) OVER (PARTITION BY run_id ORDER BY generation) / 1e6 AS balance,
    suite, condition, seed
FROM moved;

CREATE OR REPLACE VIEW lineage AS
SELECT run_id, child, parent, role, generation, weight, suite, condition, seed FROM data.lineage;

-- Why merges were refused, and with what uplift over the best parent: one row per condition and reason.
CREATE OR REPLACE VIEW assimilation_reasons AS
SELECT suite, condition, reason, accepted, count(*) AS trials, avg(n) AS items, avg(uplift) AS uplift
FROM data.assimilations GROUP BY ALL;

-- What practice found: of the items that organelles were given (an item is counted once for each organelle and generation),
-- the shares right at the first answer and right in the end, and the answers to one item. Where search finds next to nothing
-- beyond the first answer, rewards alone have nothing to teach.
CREATE OR REPLACE VIEW discovery AS
WITH asked AS (
    SELECT suite, run_id, condition, seed, generation, family, organelle, task_id,
        bool_or(correct AND sample = 0) AS at_once, bool_or(correct) AS solved, count(*) AS answers
    FROM data.episodes GROUP BY ALL
)
SELECT suite, run_id, condition, seed, generation, family, count(*) AS items,
    avg(at_once::INT) AS right_first, avg(solved::INT) AS right_in_the_end, avg(answers) AS answers
FROM asked GROUP BY ALL;

-- Where progress came from: unaided accuracy (first answers) of each organelle in the family of its niche, in the first and
-- the last two generations of its life, and that of its parents there in the two generations before its birth. `learned` is
-- what it gained itself, `inherited` what birth by its origin (merge, mutation) added to its parents. Few answers make noise.
CREATE OR REPLACE VIEW lineage_progress AS
WITH first_answers AS (
    SELECT e.run_id, e.organelle, e.family, e.generation, e.correct::INT AS correct
    FROM data.episodes AS e WHERE e.sample = 0
),
lives AS (
    SELECT o.*, min(f.generation) AS began, max(f.generation) AS ended
    FROM data.organelles AS o JOIN first_answers AS f
        ON f.run_id = o.run_id AND f.organelle = o.organelle AND f.family = o.niche
    GROUP BY ALL
),
own AS (
    SELECT l.run_id, l.organelle,
        count(*) FILTER (WHERE f.generation <= l.began + 1) AS n_first,
        avg(f.correct) FILTER (WHERE f.generation <= l.began + 1) AS first,
        count(*) FILTER (WHERE f.generation >= l.ended - 1) AS n_last,
        avg(f.correct) FILTER (WHERE f.generation >= l.ended - 1) AS last
    FROM lives AS l JOIN first_answers AS f
        ON f.run_id = l.run_id AND f.organelle = l.organelle AND f.family = l.niche
    GROUP BY ALL
),
before AS (
    SELECT l.run_id, l.organelle, avg(f.correct) AS parents
    FROM lives AS l
    JOIN data.lineage AS p ON p.run_id = l.run_id AND p.child = l.organelle AND p.role = 'parent'
    JOIN first_answers AS f ON f.run_id = l.run_id AND f.organelle = p.parent AND f.family = l.niche
        AND f.generation BETWEEN l.born - 1 AND l.born
    GROUP BY ALL
)
SELECT l.suite, l.run_id, l.condition, l.seed, l.organelle, l.origin, l.niche, l.born, l.died, n_first, first, n_last, last,
    last - first AS learned, first - parents AS inherited
FROM lives AS l JOIN own USING (run_id, organelle) LEFT JOIN before USING (run_id, organelle);

-- Whose answers brought the gain over the bare host: points of a whole split, by the origin of the organelle that was asked
-- (founder, merge, mutation; host where a router asked none, examples where it answered after some). The points of an arm add up to its accuracy less the host's.
-- Mutation has 0 points where learners live, by construction: the router is offered the learner of a niche and no mutant.
CREATE OR REPLACE VIEW gain_by_origin AS
WITH host AS (SELECT suite, seed, split, task_id, correct FROM data.evaluations WHERE arm = 'frozen'),
compared AS (
    SELECT e.suite, e.run_id, e.condition, e.seed, e.arm, e.split,
        CASE e.organelle WHEN -1 THEN 'host' WHEN -2 THEN 'examples' ELSE coalesce(o.origin, 'adapter') END AS origin,
        e.correct::INT - h.correct::INT AS ahead
    FROM data.evaluations AS e JOIN host AS h USING (suite, seed, split, task_id)
        LEFT JOIN data.organelles AS o ON o.run_id = e.run_id AND o.organelle = e.organelle
),
size AS (SELECT run_id, arm, split, count(*) AS items FROM compared GROUP BY ALL)
SELECT c.suite, c.run_id, c.condition, c.seed, c.arm, c.split, c.origin, count(*) AS items,
    100 * sum(ahead) / any_value(s.items) AS points
FROM compared AS c JOIN size AS s USING (run_id, arm, split) GROUP BY ALL;

-- One row per run: what it earned, spent and reached. NULL where a condition has no such thing.
-- Costs are all that organelles pay: tickets, answers, rehearsal and tests. ROI is all rewards over all costs of the run,
-- never that of one generation.
CREATE OR REPLACE VIEW run_summary AS
WITH runs AS (
    SELECT DISTINCT suite, run_id, condition, seed FROM data.stages WHERE stage = 'evaluate' AND suite NOT IN (
        SELECT suite FROM data.suites WHERE json_extract_string(config, '$.search') <> 'adapters') -- an older one has no key
),
lived AS (
    SELECT run_id, count(*) AS generations, sum(episodes) AS episodes, max(population) > 1 AS several,
        arg_max(qd_coverage, generation) AS qd_coverage
    FROM data.generations GROUP BY run_id
),
paid AS ( -- from the ledger, since a cooldown is paid for too and no generation has it
    SELECT run_id, coalesce(sum(amount) FILTER (WHERE entry = 'reward' AND account <> 'sun'), 0) / 1e6 AS reward,
        -sum(amount) FILTER (WHERE entry IN ('ticket', 'answer', 'update', 'test') AND account NOT IN ('sun', 'sink')) / 1e6 AS cost
    FROM data.ledger GROUP BY run_id
),
merged AS (SELECT run_id, count(*) FILTER (WHERE origin = 'merge') AS merges FROM data.organelles GROUP BY run_id),
answered AS (
    SELECT run_id, avg(flops) AS cost_per_answer, sum(flops) / nullif(count(*) FILTER (WHERE correct), 0) AS cost_per_correct
    FROM data.evaluations WHERE arm = condition AND split IN ('holdout_id', 'holdout_ood', 'retention') GROUP BY run_id
),
spent AS (
    SELECT run_id,
        sum(flops) FILTER (WHERE purpose IN ('rollout', 'update')) AS train_flops,
        sum(flops) FILTER (WHERE purpose <> 'evaluation') AS total_flops,
        sum(flops) FILTER (WHERE purpose = 'evaluation') AS evaluation_flops
    FROM data.compute GROUP BY run_id
),
reached AS (
    SELECT run_id, max(acc) FILTER (WHERE split = 'holdout_id') AS holdout_id,
        max(acc) FILTER (WHERE split = 'holdout_ood') AS holdout_ood, max(acc) FILTER (WHERE split = 'retention') AS retention
    FROM split_accuracy GROUP BY run_id
)
SELECT runs.*, generations, episodes, (reward - cost) / nullif(episodes, 0) AS mean_net, reward / nullif(cost, 0) AS mean_roi,
    CASE WHEN several THEN coalesce(merges, 0) END AS merges, -- one organelle alone cannot merge
    qd_coverage, holdout_id, holdout_ood, retention, cost_per_answer, cost_per_correct, train_flops, total_flops, evaluation_flops
FROM runs LEFT JOIN lived USING (run_id) LEFT JOIN paid USING (run_id) LEFT JOIN merged USING (run_id)
    LEFT JOIN answered USING (run_id) LEFT JOIN spent USING (run_id) LEFT JOIN reached USING (run_id);

-- Means over the complete seeds with which a condition was run; of one that never was (view `not_run`) 0 seeds and NULLs.
-- lo, hi: bootstrap over seeds and items, NULL until the suite's comparisons are computed from the same seeds.
-- cost_per_answer, train_flops and total_flops are budget FLOPs; train = rollouts and updates; total = all but the
-- evaluation on the holdouts, which measures and does not train.
CREATE OR REPLACE VIEW paper_table AS
WITH intervals AS (
    SELECT suite, condition, any_value(seeds) AS seeds,
        max(lo) FILTER (WHERE split = 'holdout_id') AS holdout_id_lo, max(hi) FILTER (WHERE split = 'holdout_id') AS holdout_id_hi,
        max(lo) FILTER (WHERE split = 'holdout_ood') AS holdout_ood_lo, max(hi) FILTER (WHERE split = 'holdout_ood') AS holdout_ood_hi,
        max(lo) FILTER (WHERE split = 'retention') AS retention_lo, max(hi) FILTER (WHERE split = 'retention') AS retention_hi
    FROM accuracy WHERE arm = condition AND family = '*' GROUP BY suite, condition
),
means AS (
    SELECT suite, condition, count(*) FILTER (WHERE reason IS NULL) AS seeds, avg(generations) AS generations,
        avg(episodes) AS episodes, avg(mean_net) AS mean_net, avg(mean_roi) AS mean_roi, avg(merges) AS merges, avg(qd_coverage) AS qd_coverage,
        avg(holdout_id) AS holdout_id_acc, avg(holdout_ood) AS holdout_ood_acc, avg(retention) AS retention_acc,
        avg(cost_per_answer) AS cost_per_answer, avg(cost_per_correct) AS cost_per_correct,
        avg(train_flops) AS train_flops, avg(total_flops) AS total_flops, avg(evaluation_flops) AS evaluation_flops
    FROM run_summary JOIN complete_seeds USING (suite, seed) LEFT JOIN not_run USING (suite, run_id, condition, seed)
    GROUP BY suite, condition
)
SELECT m.suite, m.condition, s.host, m.seeds, generations, episodes, mean_net, mean_roi, merges, qd_coverage,
    holdout_id_acc, holdout_id_lo, holdout_id_hi, holdout_ood_acc, holdout_ood_lo, holdout_ood_hi, retention_acc,
    cost_per_answer, train_flops, total_flops, retention_lo, retention_hi, cost_per_correct, evaluation_flops
FROM means AS m
LEFT JOIN suites AS s USING (suite)
LEFT JOIN intervals AS i ON i.suite = m.suite AND i.condition = m.condition AND i.seeds = m.seeds
ORDER BY m.suite, list_position(s.conditions, m.condition), m.condition;

-- The other tables, under their own names.
CREATE OR REPLACE VIEW calibration AS FROM data.calibration;
CREATE OR REPLACE VIEW episodes AS FROM data.episodes;
CREATE OR REPLACE VIEW generations AS FROM data.generations;
-- `lessons`: generations in which the organelle took learning steps, from the updates that it paid for. delta_norm does not
-- say who learned: a child by mutation copies the weights of its parent.
CREATE OR REPLACE VIEW organelles AS
WITH taught AS (
    SELECT run_id, TRY_CAST(account AS BIGINT) AS organelle, count(DISTINCT generation) AS lessons
    FROM data.ledger WHERE entry = 'update' AND amount < 0 GROUP BY ALL
)
SELECT o.*, coalesce(t.lessons, 0) AS lessons FROM data.organelles AS o LEFT JOIN taught AS t USING (run_id, organelle);
CREATE OR REPLACE VIEW ledger AS FROM data.ledger;
CREATE OR REPLACE VIEW assimilations AS FROM data.assimilations;
CREATE OR REPLACE VIEW contests AS FROM data.contests;
CREATE OR REPLACE VIEW inheritance AS FROM data.inheritance;
CREATE OR REPLACE VIEW shots AS FROM data.shots;
CREATE OR REPLACE VIEW expert_rounds AS FROM data.expert_rounds;
CREATE OR REPLACE VIEW archive AS FROM data.archive;
CREATE OR REPLACE VIEW sft_steps AS FROM data.sft_steps;
CREATE OR REPLACE VIEW es_steps AS FROM data.es_steps;
CREATE OR REPLACE VIEW grpo_steps AS FROM data.grpo_steps;
CREATE OR REPLACE VIEW tuning AS FROM data.tuning;
CREATE OR REPLACE VIEW frontier AS FROM data.frontier;

-- What the stages before any arm found: items drawn, prompts that two splits share, prices, the first generations, and the
-- trials of settings with how they were judged.
CREATE OR REPLACE VIEW calibration_found AS
WITH pairs AS (
    SELECT suite, unnest(map_entries(json_extract(manifest, '$.summary.trials')::MAP(VARCHAR, BIGINT))) AS pair
    FROM data.stages WHERE stage = 'choose'
),
chosen AS (SELECT suite, pair.key AS arm, pair.value AS trial, 'chosen: ' AS word FROM pairs)
SELECT suite, condition, seed, stage, 'items: ' || split AS what, sum(n)::DOUBLE AS value, '' AS note
FROM data.splits GROUP BY ALL
UNION ALL
SELECT suite, condition, seed, stage, 'prompts in two splits', sum(shared)::DOUBLE, '' FROM data.leaks GROUP BY ALL
UNION ALL
SELECT suite, condition, seed, stage, if(key = 'peak_bytes', 'peak memory, MB', replace(key, '_', ' ')),
    if(key = 'peak_bytes', value / 1e6, value), note
FROM data.calibration
UNION ALL
SELECT suite, arm, seed, 'tune', 'accuracy of trial ' || trial, holdout_acc, coalesce(word, '') || changes
FROM data.tuning LEFT JOIN chosen USING (suite, arm, trial);

CREATE OR REPLACE VIEW variants AS FROM data.variants;

-- Robustness: accuracy of a run on the items in distribution in each form of their prompts, of those that were asked in it.
-- plain_acc: on the same items in their own form; change: how much more is right in this one; bare: share that the bare host
-- answered.
CREATE OR REPLACE VIEW robustness AS
WITH counts AS (
    SELECT v.suite, v.run_id, v.condition, v.seed, v.form, count(v.correct) AS n,
        count(*) FILTER (WHERE v.correct IS NULL) AS left_out, count(*) FILTER (WHERE v.correct) AS correct,
        count(*) FILTER (WHERE p.correct AND v.correct IS NOT NULL) AS plain,
        count(*) FILTER (WHERE v.organelle = -1) AS host
    FROM data.variants AS v JOIN data.variants AS p ON p.run_id = v.run_id AND p.task_id = v.task_id AND p.form = 'plain'
    GROUP BY ALL
)
SELECT suite, run_id, condition, seed, form, n, left_out, correct, correct / nullif(n, 0) AS acc, wilson_lo(correct, n) AS lo,
    wilson_hi(correct, n) AS hi, plain / nullif(n, 0) AS plain_acc, (correct - plain) / nullif(n, 0) AS change, host / nullif(n, 0) AS bare
FROM counts;
