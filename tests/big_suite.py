"""A store of the size of a real suite: eight seeds, seven conditions, two routers, 2,048 items in each of three splits.

Its rows are drawn in SQL by hashes, as hard to compress as real ones: made-up numbers, no results.
"""

import json
from pathlib import Path

from evolora_core.store.connection import opened, store_path

SUITE = "big-00000000"
CONDITIONS = ["frozen", "ecology", "sft-8", "sft-32", "sft-128", "sft-512", "sft"]
SEEDS = list(range(270, 278))

_ANSWERS = """
    INSERT INTO data.evaluations BY NAME
    WITH splits(split, families) AS (
        VALUES ('holdout_id', ['json_repair', 'string.sort', 'logic.bool']),
            ('holdout_ood', ['math', 'math.multi_step', 'word.tokens']),
            ('retention', ['word.count', 'code.format', 'string.reverse'])
    ), items AS (
        SELECT seed, split, families[1 + i // 683] AS family, i,
            ['short', 'medium', 'long'][1 + i % 683 // 228] AS depth,
            family || ':' || depth || ':' || substr(sha256(seed || split || i), 1, 12) AS task_id,
            CASE WHEN hash(seed, split, i) % 100 < 30 THEN split || hash(i, seed) % 3000
                ELSE seed || split || i END AS prompt
        FROM splits, unnest($seeds) AS s(seed), range(2048) AS r(i)
    ), runs AS (
        SELECT condition, seed, suffix FROM unnest($conditions) AS c(condition), unnest($seeds) AS s(seed),
            (VALUES (''), (':single')) AS a(suffix) WHERE condition <> 'frozen' OR suffix = ''
    ), asked AS (
        SELECT *, CASE WHEN condition = 'frozen' OR suffix = '' AND split <> 'holdout_id' THEN -1
            ELSE hash(condition, family, seed)::UINT64 % 16 END::BIGINT AS organelle
        FROM runs JOIN items USING (seed)
    )
    SELECT $suite AS suite, $suite || '.' || condition || '.s' || seed AS run_id, condition, seed, 'evaluate' AS stage,
        split, task_id, family, depth, condition || suffix AS arm, organelle, prompt,
        0.7 * (hash(task_id, seed) % 1000) + 0.3 * (hash(task_id, seed, organelle, CASE WHEN organelle = -1 THEN ''
            ELSE condition || suffix END) % 1000) < 450 AS correct,
        20000000 + hash(task_id, condition) % 5000000 AS flops
    FROM asked ORDER BY run_id, suffix, split, i
"""
_EPISODES = """
    INSERT INTO data.episodes BY NAME
    SELECT $suite AS suite, $suite || '.ecology.s' || seed AS run_id, 'ecology' AS condition, seed, 'evolve' AS stage,
        generation, organelle, printf('%d.%d', generation, task) AS task_id,
        split_part('a b c d', ' ', organelle % 4 + 1) AS family, sample,
        hash(seed, generation, organelle, task, sample) % 100 < 55 AS correct
    FROM unnest($seeds) AS s(seed), range(10) AS g(generation), range(16) AS o(organelle), range(16) AS t(task),
        range(4) AS n(sample)
    WHERE sample <= hash(seed, generation, organelle, task) % 4
    ORDER BY ALL
"""
_ORGANELLES = """
    INSERT INTO data.organelles BY NAME
    SELECT $suite AS suite, $suite || '.ecology.s' || seed AS run_id, 'ecology' AS condition, seed, 'evolve' AS stage,
        organelle, organelle % 16 AS slot, 4 AS rank, 'math' AS niche, 'mutation' AS origin, 0 AS born,
        (hash(seed, organelle) % 1000000000)::BIGINT AS balance, (hash(organelle, seed) / 1e12)::DOUBLE AS delta_norm
    FROM unnest($seeds) AS s(seed), range(56) AS o(organelle)
"""
_LEDGER = """
    INSERT INTO data.ledger BY NAME
    SELECT $suite AS suite, $suite || '.ecology.s' || seed AS run_id, 'ecology' AS condition, seed, 'evolve' AS stage,
        generation, entry, account, (hash(seed, generation, entry, account) % 100000000)::BIGINT AS amount
    FROM unnest($seeds) AS s(seed), range(10) AS g(generation),
        unnest(['answer', 'reward', 'ticket', 'update']) AS e(entry),
        unnest(['sun', 'sink', '1', '2', '3', '4', '5']) AS a(account)
"""


def write_big_store(home: Path) -> str:
    """Make the store in `home`; returns the suite's id."""
    config = {"name": "big", "host": "nano", "seeds": SEEDS, "conditions": CONDITIONS, "words": ["setting"] * 300}
    given = {"suite": SUITE, "seeds": SEEDS}
    with opened(store_path(home)) as connection:
        connection.execute(_ANSWERS, given | {"conditions": CONDITIONS})
        for sql in (_EPISODES, _ORGANELLES, _LEDGER):
            connection.execute(sql, given)
        runs = [(condition, seed, "evaluate") for condition in CONDITIONS for seed in SEEDS]
        runs += [("tuning", seed, f"try-{n}") for seed in (1000, 1001) for n in range(24)]
        for number, (condition, seed, stage) in enumerate(runs):
            identity = f"{(number + 1) * 0x9E3779B97F4A7C15 % 2**64:016x}"
            manifest = {"identity": identity, "identity_document": {"config": config, "inputs": {"a": identity[::-1]}}}
            connection.execute(
                "INSERT INTO data.stages VALUES (?, ?, ?, ?, ?, '', ?, ?, ?, ?)",
                [SUITE, f"{SUITE}.{condition}.s{seed}", condition, seed, stage, identity]
                + [number * 1.618, number * 314159265, json.dumps(manifest)],
            )
        connection.execute(
            "INSERT INTO data.suites VALUES (?, 'big', 'nano', ?, ?, ?)",
            [SUITE, SEEDS, CONDITIONS, json.dumps(config, sort_keys=True)],
        )
    return SUITE
