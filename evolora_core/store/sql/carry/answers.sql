-- Right or wrong, a bit for each item, arm and run, and what a search says more of an answer.
SELECT e.condition, e.seed, e.stage, arm, split, item,
    e.* EXCLUDE (suite, run_id, condition, seed, stage, split, task_id, family, depth, arm, prompt, answer, score, correct,
        reason, prompt_tokens, answer_tokens, flops),
    correct
FROM data.evaluations AS e JOIN items USING (seed, split, task_id) SEMI JOIN chosen USING (run_id, stage)
ORDER BY e.condition, e.seed, e.stage, arm, split, e.rowid
