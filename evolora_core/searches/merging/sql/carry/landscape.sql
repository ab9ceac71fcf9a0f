-- Without the answers to single items.
SELECT * EXCLUDE (suite, run_id, domains, solved) FROM data.landscape AS t
SEMI JOIN chosen USING (run_id, stage) ORDER BY condition, seed, stage, t.rowid
