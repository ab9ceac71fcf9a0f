-- On which machine, and of which code, a benchmark was measured; NULL before this was noted. cores: those that the process
-- may use. code: the commit, with a + where files differ from it; NULL where Evolora is no checkout.
ALTER TABLE data.benchmarks ADD COLUMN IF NOT EXISTS cores BIGINT;
ALTER TABLE data.benchmarks ADD COLUMN IF NOT EXISTS processor VARCHAR;
ALTER TABLE data.benchmarks ADD COLUMN IF NOT EXISTS torch VARCHAR;
ALTER TABLE data.benchmarks ADD COLUMN IF NOT EXISTS version VARCHAR;
ALTER TABLE data.benchmarks ADD COLUMN IF NOT EXISTS code VARCHAR;
