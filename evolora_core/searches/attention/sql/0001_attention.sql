-- Held-out losses. Key: run_id, stage, program, size, train_seed, split. program: the condition; `chosen` in a search; `whole`
-- and `without-GENE` in an ablation. split: `selection` or `test` texts. loss: mean nats of a text's target. parameters: without the
-- embedding. flops: of a training step. seconds: processor time of the whole evaluation.
CREATE TABLE data.attention_losses (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    program VARCHAR, size VARCHAR, train_seed BIGINT, split VARCHAR, parameters BIGINT, flops BIGINT, texts BIGINT,
    loss DOUBLE, seconds DOUBLE
);

-- The text of every program. Key: run_id, stage, candidate; candidate: NULL for a mechanism that was not searched for.
CREATE TABLE data.attention_programs (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    candidate BIGINT, program_id VARCHAR, source VARCHAR, score_lo DOUBLE, score_hi DOUBLE
);

-- Learning rates that were tried with the baseline. Key: run_id, size, rate.
CREATE TABLE data.attention_rates (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    size VARCHAR, rate DOUBLE, loss DOUBLE, chosen BOOLEAN
);

-- The floor E of L = E + A N^-alpha, shared by all programs of a run seed. Key: run_id.
CREATE TABLE data.attention_laws (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    floor DOUBLE, floor_se DOUBLE, bend DOUBLE, programs VARCHAR
);

-- What the selection's measurements said of sizes that were measured later. Key: run_id, size. gain: over the baseline.
CREATE TABLE data.attention_predictions (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    size VARCHAR, parameters BIGINT, loss DOUBLE, loss_lo DOUBLE, loss_hi DOUBLE, gain DOUBLE, gain_lo DOUBLE, gain_hi DOUBLE
);

-- A condition's fits over fresh seeds. Key: run_id, arm, run_seed. gain: predicted at three times the largest measured size.
-- slope, r2: of the loss on ln N; the first system's fitness was -slope.
CREATE TABLE data.attention_fits (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    arm VARCHAR, run_seed BIGINT, at_parameters DOUBLE, form VARCHAR, gain DOUBLE, lo DOUBLE, hi DOUBLE, line_gain DOUBLE,
    largest DOUBLE, slope DOUBLE, slope_se DOUBLE, r2 DOUBLE, guards VARCHAR
);

-- Declared contrasts of two conditions on fresh seeds and unseen texts at the largest size. Key: suite, a, b. gain: loss of
-- `b` less that of `a`, nats, positive where `a` is better.
CREATE TABLE data.attention_contrasts (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    a VARCHAR, b VARCHAR, size VARCHAR, seeds BIGINT, gain DOUBLE, lo DOUBLE, hi DOUBLE, p DOUBLE, p_holm DOUBLE,
    cohens_d DOUBLE, verdict VARCHAR, note VARCHAR
);

-- A chosen program without one of its genes. Key: run_id, gene, size. loss: of the program without it, less the whole one's.
CREATE TABLE data.attention_ablations (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    gene VARCHAR, choice VARCHAR, size VARCHAR, seeds BIGINT, loss DOUBLE, lo DOUBLE, hi DOUBLE
);
