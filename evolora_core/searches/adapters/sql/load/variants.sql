SELECT v.condition, v.seed, v.stage, form, organelle, correct,
    CASE typeof(i.task) WHEN 'BIGINT' THEN printf('%07d', TRY_CAST(i.task AS BIGINT))
        ELSE i.task::VARCHAR END AS task_id
FROM carried_variants AS v JOIN carried_items AS i USING (seed, item) WHERE i.split = 'holdout_id'
