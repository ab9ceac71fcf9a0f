SELECT condition, seed, stage, identity, seconds, flops, manifest FROM data.stages
SEMI JOIN chosen USING (run_id, stage) ORDER BY ALL
