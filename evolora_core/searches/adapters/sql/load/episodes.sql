-- As many answers as the item had: the first right or not, the last right if any was.
WITH asked AS (SELECT *, row_number() OVER () - 1 AS task FROM carried_practice),
answered AS (SELECT *, unnest(range(answers)) AS number FROM asked)
SELECT condition, seed, stage, generation, family, organelle, printf('%07d', task) AS task_id,
    row_number() OVER (ORDER BY task, number) - 1 AS episode,
    number + (solved AND NOT at_once AND answers = 1)::BIGINT AS sample,
    CASE WHEN at_once THEN number = 0 ELSE solved AND number = answers - 1 END AS correct
FROM answered ORDER BY task, number
