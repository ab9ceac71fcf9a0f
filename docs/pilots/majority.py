"""May a population without a verifier learn what its answers agree on?

The bare host's greedy answers against the answer that most of 16 samples give. Where the majority is right no more
often than the greedy answer, learning it brings nothing.

    python docs/pilots/majority.py          # twelve minutes of one core
"""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pandas as pd

from evolora_core.engine import rng
from evolora_core.language.datasets import build_splits
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.hosts.host import load_host
from evolora_core.lora.answering.grading import answer_items
from evolora_core.lora.answering.outcome import Manner
from evolora_core.lora.population.slots import HOST

SEEDS, SAMPLES, TEMPERATURE = (1400, 1401, 1402), 16, 0.8
DATA = SimpleNamespace(
    train_families=["json_repair", "string.sort", "logic.bool", "math.sequence", "math"],
    ood_families=["math.multi_step"],
    retention_families=["string.reverse"],
    depths=["short", "medium", "long"],
    train_items=1000,
    selection_items=60,
    reselection_items=0,
    holdout_items=60,
)

host, decoding = load_host("nano"), DecodingConfig()
rows = []
for seed in SEEDS:
    items = build_splits(DATA, seed)["train"]
    greedy = answer_items(host, None, items, [HOST] * len(items), decoding=decoding)
    repeated = [item for item in items for _ in range(SAMPLES)]
    keys = rng.row_keys(rng.key(seed, 0, 0, "maj", "x"), len(repeated))
    manner = Manner(temperatures=TEMPERATURE, keys=keys)
    drawn = answer_items(host, None, repeated, [HOST] * len(repeated), manner, decoding=decoding)
    for number, (item, first) in enumerate(zip(items, greedy, strict=True)):
        own = drawn[number * SAMPLES : (number + 1) * SAMPLES]
        answer, votes = Counter(outcome.answer for outcome in own).most_common(1)[0]
        right = next(outcome.grade.correct for outcome in own if outcome.answer == answer)
        rows.append(
            {
                "family": item.family,
                "greedy": first.grade.correct,
                "majority": right,
                "sample": np.mean([outcome.grade.correct for outcome in own]),
                "half agree": 2 * votes >= SAMPLES,
                "and are right": right if 2 * votes >= SAMPLES else np.nan,
            }
        )
table = pd.DataFrame(rows)
everything = table.drop(columns="family").mean().rename("all").to_frame().T
print((100 * pd.concat([table.groupby("family").mean(), everything]).astype(float)).round(1).to_string())
