-- What users and packs query of the attention search, beside the views of every search. Columns may be added, never
-- renamed. Losses are nats of a held-out text's target; gains are over the baseline, softmax attention (`mha`).

CREATE OR REPLACE VIEW attention_losses AS
SELECT suite, program, size, train_seed AS seed, loss, split, condition, seed AS run_seed, parameters, flops, texts, seconds,
    run_id, stage
FROM data.attention_losses;

CREATE OR REPLACE VIEW scaling_fit AS
SELECT suite, arm, run_seed AS seed, at_parameters, form, gain, lo, hi, line_gain, largest, slope, slope_se, r2, guards,
    largest_lo, largest_hi, intercept, floor, amplitude, alpha
FROM data.attention_fits;

-- The paired curve: the gain over the baseline size by size, over the training seeds of a run seed, on texts that no search saw.
-- se: of that mean, NULL with one training seed.
CREATE OR REPLACE VIEW attention_curve AS
WITH fresh AS (
    SELECT suite, condition AS arm, seed AS run_seed, size, train_seed, parameters, loss
    FROM data.attention_losses JOIN complete_seeds USING (suite, seed) WHERE stage = 'evaluate' AND split = 'test'
)
SELECT own.suite, own.arm, own.run_seed AS seed, own.size, own.parameters, avg(plain.loss - own.loss) AS gain,
    stddev_samp(plain.loss - own.loss) / sqrt(count(*)) AS se, count(*) AS train_seeds
FROM fresh AS own JOIN fresh AS plain USING (suite, run_seed, size, train_seed)
WHERE plain.arm = 'mha' GROUP BY ALL;

-- parameters: those of the program, at which its loss is predicted; the gain is at the baseline's for both.
CREATE OR REPLACE VIEW attention_prediction AS
SELECT suite, condition AS arm, seed, size, parameters, loss, loss_lo, loss_hi, gain, gain_lo, gain_hi
FROM data.attention_predictions;

CREATE OR REPLACE VIEW attention_contrast AS
SELECT suite, a, b, size, seeds, gain, lo, hi, p, p_holm, cohens_d, verdict, note FROM data.attention_contrasts;

CREATE OR REPLACE VIEW attention_rate AS
SELECT suite, seed, size, rate, loss, chosen FROM data.attention_rates;

CREATE OR REPLACE VIEW attention_law AS
SELECT suite, seed, floor, floor_se, bend, programs FROM data.attention_laws;

CREATE OR REPLACE VIEW attention_ablation AS
SELECT suite, condition AS arm, seed, gene, choice, size, seeds, loss, lo, hi FROM data.attention_ablations;

CREATE OR REPLACE VIEW attention_program AS
SELECT suite, run_id, condition AS arm, seed, candidate, program_id, source, score_lo, score_hi, chosen, seconds,
    final_score, final_lo, final_hi
FROM data.attention_programs;

CREATE OR REPLACE VIEW attention_ensemble AS
SELECT suite, condition AS arm, seed, size, members, models, loss, alone FROM data.attention_ensembles;

-- One row per arm, over the complete run seeds. score, lo, hi: the gain that fresh seeds have at the largest size of the
-- search, with the t interval over run seeds, or that of the training seeds of the one there is. at_3n: the gain that the law
-- predicts from these at three times that size. predicted: the gain at the largest size that selection never saw, told before
-- it was measured; measured: what it was. step_time: processor seconds of a whole evaluation at that size, relative to the
-- baseline's. parameters: at that size.
CREATE OR REPLACE VIEW attention_table AS
WITH fits AS (
    SELECT suite, arm, count(*) AS seeds, avg(0 - largest) AS score, any_value(0 - largest_hi) AS only_lo,
        any_value(0 - largest_lo) AS only_hi, stddev_samp(largest) / sqrt(count(*)) AS se,
        avg(gain) AS at_3n, avg(slope) AS slope, avg(r2) AS r2,
        string_agg(DISTINCT guards, ', ') FILTER (WHERE guards <> '') AS guards
    FROM data.attention_fits GROUP BY ALL
), quantiles(seeds, t) AS (
    VALUES (2, 12.7062), (3, 4.3027), (4, 3.1824), (5, 2.7764), (6, 2.5706), (7, 2.4469), (8, 2.3646), (9, 2.3060), (10, 2.2622)
    UNION ALL -- beyond, an expansion of the quantile (Abramowitz and Stegun 26.7.5), right to 1e-4
    SELECT n, 1.959964 + 2.372271 / (n - 1) + 2.822499 / (n - 1) ** 2 + 2.555848 / (n - 1) ** 3 FROM range(11, 1001) AS r(n)
), fresh AS (
    SELECT suite, condition AS arm, seed, size, avg(loss) AS loss, avg(seconds) AS seconds, max(parameters) AS parameters,
        max(flops) AS flops
    FROM data.attention_losses JOIN complete_seeds USING (suite, seed)
    WHERE stage = 'evaluate' GROUP BY ALL
), largest AS (
    SELECT suite, arg_max(size, parameters) AS size FROM fresh WHERE arm = 'mha' GROUP BY suite
), judged AS (
    SELECT own.suite, own.arm, own.size, avg(plain.loss - own.loss) AS measured, avg(own.seconds / plain.seconds) AS step_time,
        max(own.parameters) AS parameters, avg(own.flops / plain.flops) AS flops
    FROM fresh AS own JOIN largest USING (suite, size)
    JOIN fresh AS plain ON plain.suite = own.suite AND plain.seed = own.seed AND plain.size = own.size AND plain.arm = 'mha'
    GROUP BY ALL
), predictions AS (
    SELECT suite, condition AS arm, size, avg(gain) AS predicted FROM data.attention_predictions
    JOIN complete_seeds USING (suite, seed) GROUP BY ALL
), tried AS (
    SELECT suite, condition AS arm, count(*) FILTER (WHERE fresh) AS programs FROM data.candidates
    JOIN complete_seeds USING (suite, seed) GROUP BY ALL
), frameworks AS (
    SELECT suite, config ->> '$.framework' AS framework, config FROM suites
)
SELECT suite,
    CASE WHEN programs IS NULL THEN '' ELSE coalesce(config ->> ('$.arms."' || arm || '".framework'), framework) END
        AS framework,
    arm, coalesce(programs, 0) AS programs, score,
    CASE WHEN fits.seeds = 1 THEN only_lo ELSE score - t * se END AS lo,
    CASE WHEN fits.seeds = 1 THEN only_hi ELSE score + t * se END AS hi,
    predicted, measured, step_time, parameters, flops, slope, r2, guards, fits.seeds AS seeds, size, at_3n
FROM fits LEFT JOIN quantiles USING (seeds) LEFT JOIN judged USING (suite, arm)
LEFT JOIN predictions USING (suite, arm, size) LEFT JOIN tried USING (suite, arm) LEFT JOIN frameworks USING (suite);

-- The exhaustive table: what was measured, what each program is worth by it, and replayed runs. score and truth are gains at
-- the largest size of the table.
CREATE OR REPLACE VIEW attention_table_program AS
SELECT suite, seed, program, genome, size, train_seed, loss, flops, parameters, seconds, reason, run_id
FROM data.attention_table_programs;

CREATE OR REPLACE VIEW attention_table_score AS
SELECT suite, seed, program, genome, score, truth, reason, run_id FROM data.attention_table_scores;

CREATE OR REPLACE VIEW attention_regret AS SELECT * EXCLUDE (condition, stage) FROM data.attention_regrets;
CREATE OR REPLACE VIEW attention_replay AS SELECT * EXCLUDE (condition, stage) FROM data.attention_replays;

-- Questions to models. Several may have been asked for one candidate, where the first programs were known; a question
-- whose program was no longer paid for has none.
CREATE OR REPLACE VIEW proposer_call AS
SELECT suite, run_id, condition AS arm, seed, candidate, model, prompt_tokens, completion_tokens, seconds, usd, outcome,
    request_hash
FROM data.proposer_calls;

-- What the stages before any mechanism found: texts drawn, and the learning rate of each size with the losses of all that
-- were tried.
CREATE OR REPLACE VIEW attention_calibration AS
SELECT suite, condition, seed, stage, 'texts: ' || split AS what, sum(n)::DOUBLE AS value, '' AS note
FROM data.splits GROUP BY ALL
UNION ALL
SELECT suite, condition, seed, stage, format('loss of {} at rate {}', size, rate), loss, if(chosen, 'chosen', '')
FROM data.attention_rates;
