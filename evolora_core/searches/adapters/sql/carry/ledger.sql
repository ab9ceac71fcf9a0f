-- Sums; organelles are told apart in what they earn and what answers and updates cost them.
SELECT condition, seed, stage, generation, entry,
    CASE WHEN entry IN ('reward', 'answer', 'update') OR TRY_CAST(account AS BIGINT) IS NULL THEN account
    ELSE 'organelles' END AS account,
    sum(amount)::BIGINT AS amount
FROM data.ledger SEMI JOIN chosen USING (run_id, stage) GROUP BY ALL ORDER BY ALL
