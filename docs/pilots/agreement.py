"""Where the verifier errs: are answers that two organelles found apart more often true than those that one found?

Pairs of organelles that learned from different items, with errors of their own, search the same 1,024 items, which
neither has practised. The verifier is wrong about one answer in five, for both alike. After
`evolora run docs/pilots/agreement.yaml`:

    python docs/pilots/agreement.py          # three minutes of one core
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd

from evolora_core.engine.home import home_path
from evolora_core.language.datasets import build_splits
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.hosts.host import load_host
from evolora_core.lora.answering.outcome import Outcome
from evolora_core.lora.population.stack import Population
from evolora_core.lora.population.trained import load_trained
from evolora_core.searches.adapters import finished
from evolora_core.searches.adapters.ecology.organelle import Group
from evolora_core.searches.adapters.ecology.rules.search import search
from evolora_core.searches.adapters.ecology.task import Task
from evolora_core.searches.adapters.experiment import SuiteConfig
from evolora_core.searches.adapters.settings.ecology import EcologySettings
from evolora_core.searches.registry import load_experiment

PAIRS = ((1400, 1401, 1402), (1402, 1403, 1404), (1404, 1405, 1400))  # two organelles, and whose items they search
ITEMS, CALLS, ERROR = 1024, (1, 2, 4, 8), 0.2
DATA = cast(SuiteConfig, load_experiment(Path(__file__).with_suffix(".yaml"))).data  # what they learned from
SETTINGS = EcologySettings(verifier_error=ERROR, episodes=10**6, population=2)


def accepted(answers: list[Outcome], calls: int) -> Outcome | None:
    """The first of so many answers that the verifier accepts."""
    return next((answer for answer in answers[:calls] if answer.grade.correct), None)


HOME, host = home_path(), load_host("nano")
rows: list[dict[str, Any]] = []
for first, second, asked in PAIRS:
    items = build_splits(DATA, asked)["train"]
    items = [items[number] for number in np.random.default_rng(asked).permutation(len(items))[:ITEMS]]
    population = Population.empty(host, 2, 8)
    for slot, seed in enumerate((first, second)):
        entry = finished.find(HOME, f"agreement.single.s{seed}")[0]
        alone = load_trained(host, HOME / entry.folder)[0]
        assert alone is not None
        population.put(slot, alone.get(0))
    task = Task(host, items, [], DecodingConfig(), asked, cast(Any, None))
    run = SimpleNamespace(config=SETTINGS, task=task, state=SimpleNamespace(population=population))
    pair = [SimpleNamespace(id=slot, slot=slot) for slot in range(2)]
    groups = [Group(cast(Any, own), item) for own in pair for item in range(ITEMS)]
    found = search(cast(Any, run), groups)
    for number, item in enumerate(items):
        for calls in CALLS:
            one, other = (accepted(found[number + slot * ITEMS], calls) for slot in range(2))
            # An accepted answer is true unless the verifier erred about it.
            true = one is not None and one.grade.reason != "verifier error"
            agreed = one is not None and other is not None and one.answer == other.answer
            rows += [
                {"family": family, "calls": calls, "accepted": one is not None, "agreed": agreed, "true": true}
                for family in (item.family, "all")
            ]
table = pd.DataFrame(rows).groupby(["family", "calls"])
shares = pd.DataFrame(
    {
        "accepted %": 100 * table["accepted"].mean(),
        "true of accepted %": 100 * table["true"].sum() / table["accepted"].sum(),
        "agreed %": 100 * table["agreed"].mean(),
        "true of agreed %": 100 * table.apply(lambda own: own.loc[own["agreed"], "true"].mean()),
    }
)
print(shares.round(1).to_string())
