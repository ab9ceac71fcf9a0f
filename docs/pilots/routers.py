"""What could a router that learns from verdicts (a bandit) add to the router `family`, which is chosen once at the end?

At most what the best choice in hindsight adds: for each seed, family and depth whoever of host, learner and sum answers
most of the holdout. It is read from the kept packs; nothing is run.

    python docs/pilots/routers.py          # from the project's folder, some seconds
"""

from pathlib import Path

import pandas as pd

CANDIDATES = ["ecology", "ecology:single", "frozen"]  # the niche's learner or the host, the sum, the host
CELL = ["seed", "family", "depth"]

rows = []
for folder in sorted(Path("docs/paper_packs").glob("*/data")):
    if not (folder / "answers.parquet").exists():
        continue
    answers = pd.read_parquet(folder / "answers.parquet", filters=[("split", "==", "holdout_id")])
    right = answers.pivot_table(index=["seed", "item"], columns="arm", values="correct", aggfunc="first")
    if not {*CANDIDATES} <= {*right.columns}:
        continue
    right = right[CANDIDATES].astype(float).dropna()
    items = pd.read_parquet(folder / "items.parquet", filters=[("split", "==", "holdout_id")])
    right = right.join(items.set_index(["seed", "item"])[["family", "depth"]]).reset_index()
    cells = right.groupby(CELL)[CANDIDATES].mean()
    hindsight = cells.max(axis=1).mul(right.groupby(CELL).size()).sum() / len(right)
    rows.append((folder.parent.name, right["ecology"].mean(), hindsight, right[CANDIDATES].max(axis=1).mean()))
columns = ["pack", "family", "hindsight by family and depth", "somebody is right"]
table = pd.DataFrame(rows, columns=columns).set_index("pack").mul(100)
table.insert(2, "at most, points", table[columns[2]] - table[columns[1]])
print(table.round(2).to_string())
