-- Without the genomes, which are long: what a condition chose stands elsewhere, and the run folders have all of them.
SELECT * EXCLUDE (suite, run_id, genome) FROM data.candidates AS t
SEMI JOIN chosen USING (run_id, stage) ORDER BY condition, seed, stage, t.rowid
