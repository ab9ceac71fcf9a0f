-- Which organelle was asked, as in `evaluations`; -1 is the bare host, NULL where nobody was.
ALTER TABLE data.variants ADD COLUMN IF NOT EXISTS organelle BIGINT;
