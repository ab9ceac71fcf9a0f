-- Right, wrong or not asked, and of whom, for each item, form and run.
SELECT v.condition, v.seed, v.stage, form, item, organelle, correct
FROM data.variants AS v JOIN items ON items.seed = v.seed AND items.split = 'holdout_id' AND items.task_id = v.task_id
SEMI JOIN chosen USING (run_id, stage)
ORDER BY v.condition, v.seed, v.stage, v.rowid
