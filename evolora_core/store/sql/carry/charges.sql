-- What the answers of an arm to a split cost together.
SELECT condition, seed, stage, arm, split, sum(flops)::BIGINT AS flops
FROM data.evaluations SEMI JOIN chosen USING (run_id, stage) GROUP BY ALL ORDER BY ALL
