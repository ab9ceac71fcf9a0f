"""One file a stage: a Prefect task that caches, retries and records; what it computes is in `evolora_core`."""
