-- A trial of tuning is judged on the holdout of its seed; the selection split, which chose its routes too, judged it
-- before.
ALTER TABLE data.tuning ADD COLUMN holdout_acc DOUBLE;
