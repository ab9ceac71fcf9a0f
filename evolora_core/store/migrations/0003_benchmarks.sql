-- What `evolora bench` measured; the files are EVOLORA_HOME/bench/NAME-TIME.json.
CREATE TABLE data.benchmarks (
    bench VARCHAR, measured VARCHAR, measure VARCHAR, ours DOUBLE, other DOUBLE, ratio DOUBLE, unit VARCHAR, note VARCHAR
);
