-- The cost of a split is spread evenly over its answers.
WITH numbered AS (
    SELECT *, row_number() OVER () AS place, row_number() OVER own AS number, count(*) OVER everything AS n
    FROM carried_answers
    WINDOW own AS (PARTITION BY condition, seed, stage, arm, split),
        everything AS (PARTITION BY condition, seed, stage, arm, split)
)
SELECT a.condition, a.seed, a.stage, a.split, a.arm, a.correct, i.family, i.depth,
    a.* EXCLUDE (condition, seed, stage, split, arm, correct, item, place, number, n),
    CASE typeof(i.task) WHEN 'BIGINT' THEN printf('%07d', TRY_CAST(i.task AS BIGINT))
        ELSE i.task::VARCHAR END AS task_id,
    i.prompt::VARCHAR AS prompt, c.flops // a.n + (a.number <= c.flops % a.n)::BIGINT AS flops
FROM numbered AS a JOIN carried_items AS i USING (seed, split, item)
    JOIN carried_charges AS c USING (condition, seed, stage, arm, split)
ORDER BY place
