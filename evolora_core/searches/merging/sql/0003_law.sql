-- Every subset of the specialists of a base, merged. Key: run_id, parameters, method, subset. loss: mean negative
-- log-likelihood of a gold token on the search items (nats), weighted over domains.
CREATE TABLE data.merge_law (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    parameters BIGINT, method VARCHAR, merged BIGINT, subset VARCHAR, loss DOUBLE, solved DOUBLE
);

-- The law L = floor + width_gain N^-width_power + merge_gain N^-merge_power / (k + shift), N in units of 100,000 parameters.
-- Key: run_id, method. Errors: mean absolute, over the predicted points (nats); fit_error: root mean square of the fitted.
CREATE TABLE data.law_fits (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    method VARCHAR, floor DOUBLE, width_gain DOUBLE, width_power DOUBLE, merge_gain DOUBLE, merge_power DOUBLE, shift DOUBLE,
    fit_error DOUBLE, law_error DOUBLE, same_error DOUBLE, points BIGINT
);

-- Mean losses and what the law says. Key: run_id, method, parameters, merged.
CREATE TABLE data.law_points (
    suite VARCHAR, run_id VARCHAR, condition VARCHAR, seed BIGINT, stage VARCHAR,
    method VARCHAR, parameters BIGINT, merged BIGINT, subsets BIGINT, loss DOUBLE, predicted DOUBLE, predicted_lo DOUBLE,
    predicted_hi DOUBLE, same_as_before DOUBLE, fitted BOOLEAN
);
