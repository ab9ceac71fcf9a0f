-- What each way of showing solved examples was worth to the arm `examples`, on the selection split. Key: run_id, routing,
-- bucket, shown, which. bucket: what the router looks up, such as a family. shown: examples before an item, 0: the bare host.
-- which: `nearest` to the item's prompt, or the `same` always. chosen: whether this is how the bucket is answered.
CREATE TABLE IF NOT EXISTS data.shots (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    routing VARCHAR, bucket VARCHAR, shown BIGINT, which VARCHAR, items BIGINT, accuracy DOUBLE, chosen BOOLEAN
);
