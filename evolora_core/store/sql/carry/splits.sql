SELECT * EXCLUDE (suite, run_id, sha256) FROM data.splits AS t
SEMI JOIN chosen USING (run_id, stage) ORDER BY condition, seed, stage, t.rowid
