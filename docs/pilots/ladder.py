"""Does what an arm gains grow with its host? A straight line in the logarithm of parameters, over a ladder of hosts.

Reads the packs of `configs/suites/ladder.yaml`: what each arm gains over its bare host, in points, and what the line
through the two smaller hosts says of the largest. Where that one has run, the error of the prediction follows, and the
gain for each doubling of the parameters over all three. Intervals: Student's t over the seeds, which have the same
items at each host.

    python docs/pilots/ladder.py          # from the project's folder
"""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

PACKS = Path("docs/paper_packs")
PARAMETERS = {"ladder-small": 220_224, "ladder": 833_408, "ladder-large": 3_239_424}


def accuracies(pack: str) -> pd.DataFrame:
    """Per cent of all families in distribution, by seed and arm."""
    answers = pd.read_parquet(PACKS / pack / "data" / "answers.parquet", filters=[("split", "==", "holdout_id")])
    answers = answers[~answers["arm"].str.contains(":")]  # every arm by its own routing
    return answers.groupby(["seed", "arm"])["correct"].mean().unstack().mul(100)


def interval(values: pd.Series) -> str:
    """Mean with 95 %, over the seeds that an arm was run with."""
    values = values.dropna()
    mean, half = values.mean(), stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    return f"{mean:+.1f} [{mean - half:+.1f}, {mean + half:+.1f}]"


ran = {pack: accuracies(pack) for pack in PARAMETERS if (PACKS / pack).is_dir()}
gained = {pack: own.sub(own["frozen"], axis=0).drop(columns="frozen") for pack, own in ran.items()}
small, middle, large = np.log2([*PARAMETERS.values()])
predicted = gained["ladder"] + (gained["ladder"] - gained["ladder-small"]) * (large - middle) / (middle - small)
columns = {pack: own.apply(interval) for pack, own in gained.items()} | {"predicted": predicted.apply(interval)}
if "ladder-large" in ran:
    columns["measured - predicted"] = (gained["ladder-large"] - predicted).apply(interval)
    x = np.array([small, middle, large]) - np.mean([small, middle, large])
    slopes = sum(weight * gained[pack] for weight, pack in zip(x / (x @ x), PARAMETERS, strict=True))
    columns["for each doubling"] = slopes.apply(interval)
print("the bare hosts, %:", ", ".join(f"{pack} {own['frozen'].mean():.1f}" for pack, own in ran.items()))
print(pd.DataFrame(columns).to_string())
