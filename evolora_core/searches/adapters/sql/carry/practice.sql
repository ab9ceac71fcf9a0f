-- What practice found: one row for each item that an organelle was given in a generation.
SELECT * EXCLUDE task_id FROM (
    SELECT e.condition, e.seed, e.stage, generation, family, organelle, task_id,
        coalesce(bool_or(correct AND sample = 0), false) AS at_once, coalesce(bool_or(correct), false) AS solved,
        count(*) AS answers
    FROM data.episodes AS e SEMI JOIN chosen USING (run_id, stage) GROUP BY ALL
) ORDER BY ALL
