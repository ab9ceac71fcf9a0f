CREATE OR REPLACE VIEW number_steps AS FROM data.number_steps;

-- Means over the complete seeds.
CREATE OR REPLACE VIEW number_table AS
WITH ends AS (
    SELECT suite, condition, seed, arg_max(error, step) AS error FROM data.number_steps
    JOIN complete_seeds USING (suite, seed) GROUP BY ALL
), right_answers AS (
    SELECT suite, condition, acc, lo, hi FROM accuracy WHERE arm = condition AND family = '*' AND split = 'test'
)
SELECT suite, condition, count(*) AS seeds, avg(error) AS error, any_value(acc) AS acc, any_value(lo) AS lo,
    any_value(hi) AS hi
FROM ends JOIN right_answers USING (suite, condition) GROUP BY suite, condition;
