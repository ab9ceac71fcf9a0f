-- A declared comparison may be made under another routing than the headline's.
ALTER TABLE data.comparisons ADD COLUMN routing VARCHAR;
UPDATE data.comparisons SET routing = 'headline';
