-- Questions to models that propose programs. Key: run_id, request_hash. outcome: used, or unusable where no program could be
-- made of the answer. seconds: wall clock. usd: by the prices of the suite. request_hash: of the line in calls.jsonl.
CREATE TABLE data.proposer_calls (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    candidate BIGINT, model VARCHAR, prompt_tokens BIGINT, completion_tokens BIGINT, seconds DOUBLE, usd DOUBLE,
    outcome VARCHAR, request_hash VARCHAR
);
