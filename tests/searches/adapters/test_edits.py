"""What an edit of the code makes again: a table of edits and of the stages whose identity each changes.

The identities are those of a real suite with every arm, computed for a copy of the sources with one edit in it.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from evolora_core.engine import identity, plugins
from evolora_core.engine.stage import StageResult, Step, Suite
from evolora_core.searches.adapters.arms.evolved import Calibrated
from evolora_core.searches.adapters.experiment import SuiteConfig, load_suite
from evolora_core.searches.adapters.search import SEARCH
from evolora_core.searches.adapters.stages.tune import Tried
from evolora_core.searches.registry import suite_id

ROOT = Path(__file__).resolve().parents[3]
ARMS = [
    "conditions=[frozen, single, ecology, sft, es, grpo]",
    "seeds=[0]",
    "es.trials=[{learning_rate: 0.01}, {learning_rate: 0.02}]",
    "grpo.trials=[{learning_rate: 0.001}, {learning_rate: 0.002}]",
]
CACHES: tuple[Callable[..., Any], ...] = (
    plugins.source,
    plugins.search_modules,
    plugins.sql_folders,
    identity._code_hash,
    identity._data,
    identity._imports,
    identity._text,
)
SEARCHED = "evolora_core/searches/adapters"
FAMILIES = "evolora_core/language/families"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources."""
    folder = tmp_path_factory.mktemp("tree")
    for package in ("evolora_core", "tasks"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "*.safetensors"))
    return folder


@pytest.fixture(scope="module", autouse=True)
def of_the_copy(tree: Path) -> Iterator[None]:
    """Identities are computed from the copy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "ROOT", tree)
        forget()
        yield
    forget()


def forget() -> None:
    """Read the sources anew."""
    for cached in CACHES:
        cached.cache_clear()  # type: ignore[attr-defined]


def identities() -> dict[str, str]:
    """Identity of every stage of the suite, by name, as if each had been made."""
    forget()
    config = load_suite(ROOT / "configs" / "suites" / "tiny.yaml", ARMS)
    suite: Suite[SuiteConfig] = Suite(config, suite_id(config))
    results: dict[str, StageResult] = {}
    steps = SEARCH.plan(suite)
    for step in steps:
        results[step.name] = as_if_made(step, results)
    for step in SEARCH.closing(suite, config.seeds, steps, dict(results)):
        results[step.name] = as_if_made(step, results)
    return {name: result.identity for name, result in results.items()}


def as_if_made(step: Step, results: dict[str, StageResult]) -> StageResult:
    """What a stage would hand on."""

    def result(need: Step | Sequence[Step] | None) -> Any:
        if isinstance(need, Sequence):
            return [results[own.name] for own in need]
        return results[need.name] if need else None

    request = step.stage.request(**step.given, **{role: result(need) for role, need in step.needs.items()})
    tried = Tried(arm="", trial=0, changes="{}", holdout_acc=0.5, flops=100, fixed_flops=10, extinct=False)
    facts = {
        "calibrate": Calibrated(generations=1, generation_seconds=1.0).model_dump(),
        "choose": {"trials": dict.fromkeys(step.given["suite"].config.trained, 0)},
    }.get(request.stage, tried.model_dump() if request.condition == "tuning" else {})
    return StageResult(
        stage=request.stage,
        condition=request.condition,
        seed=request.seed,
        folder=request.folder,
        identity=request.identity,
        seconds=1.0,
        flops=100,
        summary=facts,
    )


def of_arms(*arms: str) -> set[str]:
    """Trials, training and evaluation of arms, and what follows from them."""
    stages = {"single": "evolve", "ecology": "evolve"}
    own = {f"{arm}.s0.{stage}" for arm in arms for stage in (stages.get(arm, arm), "evaluate")}
    own |= {f"tuning.s1000.try-{arm}-{trial}" for arm in arms for trial in (0, 1)} | {"tuning.s1000.choose"}
    return own | ({"ecology.s0.calibrate"} if "ecology" in arms else set()) | {"suite.s0.compare", "suite.s0.pack"}


NOTHING: set[str] = set()
PACK = {"suite.s0.pack"}
COMPARED = {"suite.s0.compare", *PACK}
EVERYTHING = {"everything"}
EDITS: dict[str, tuple[str, str, str, set[str]]] = {
    "the colour of a plot": (f"{SEARCHED}/pack/looks.py", "#56B4E9", "#56B4EA", PACK),
    "the look of an arm": (f"{SEARCHED}/arms/kinds.py", "#D55E00", "#D55E01", PACK),
    "a view of the store": (f"{SEARCHED}/sql/views.sql", "avg(mean_roi)", "avg(mean_roi + 0)", PACK),
    "the text of a pack": (f"{SEARCHED}/pack/templates/README.md.j2", "## ", "##  ", PACK),
    "the statistics": ("evolora_core/statistics/inference.py", "MIN_SEEDS = 5", "MIN_SEEDS = 6", COMPARED),
    "a default of GRPO": (f"{SEARCHED}/settings/grpo.py", "2e-3", "3e-3", of_arms("grpo")),
    "a default of the ecology": (f"{SEARCHED}/settings/ecology.py", "16.0", "17.0", of_arms("ecology", "single")),
    "the description of a setting": (f"{SEARCHED}/settings/grpo.py", "sampling temperature", "heat", NOTHING),
    "a docstring": (f"{SEARCHED}/ecology/merit.py", '"""', '"""Words. ', NOTHING),
    "the trainer of SFT": (f"{SEARCHED}/rivals/sft.py", "max(0, num", "max(1, num", of_arms("sft")),
    "evolution strategies": (f"{SEARCHED}/rivals/es.py", "noise[0] = 0.0", "noise[0] = 0.1", of_arms("es")),
    "the ecology": (f"{SEARCHED}/ecology/merit.py", "PRIOR = 8", "PRIOR = 9", of_arms("ecology", "single")),
    "the regime of `single`": (
        f"{SEARCHED}/ecology/regimes/single.py",
        "REGIME = ",
        "MORE = 1\nREGIME = ",
        of_arms("single"),
    ),
    "the regime of ecologies": (
        f"{SEARCHED}/ecology/regimes/ecology.py",
        "REGIME = ",
        "MORE = 1\nREGIME = ",
        of_arms("ecology"),
    ),
    "a rule that no arm learns by": (f"{SEARCHED}/ecology/rules/hebbian.py", "import", "import os\nimport", NOTHING),
    "the name of another rule": (f"{SEARCHED}/ecology/rules/names.py", "{  # name", "{'new': '',  # name", NOTHING),
    "a family that the suite does not have": (
        f"{FAMILIES}/json_repair.py",
        "FAMILY = ",
        "MORE = 1\nFAMILY = ",
        NOTHING,
    ),
    "a family that the suite trains on": (f"{FAMILIES}/string_sort.py", "FAMILY = ", "MORE = 1\nFAMILY = ", EVERYTHING),
    "what writes the tables": ("evolora_core/engine/tables.py", "list(rows)", "[*rows]", EVERYTHING),
    "how stages are run": ("tasks/stage.py", "retries=2", "retries=3", NOTHING),
    "the plan": (f"{SEARCHED}/plan.py", "unique(", "list(", NOTHING),
    "a new search": ("evolora_core/searches/new/search.py", "", "SEARCH = None", NOTHING),
}


@pytest.fixture(scope="module")
def before(tree: Path) -> dict[str, str]:
    """The identities without an edit."""
    return identities()


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_makes_again_what_depends_on_it_and_no_more(edit: str, tree: Path, before: dict[str, str]) -> None:
    name, old, new, expected = EDITS[edit]
    path = tree / name
    kept = path.read_text(encoding="utf-8") if path.exists() else None
    path.parent.mkdir(exist_ok=True)
    assert kept is None or old in kept, f"{name} has no longer what the edit replaces"
    try:
        path.write_text(new if kept is None else kept.replace(old, new, 1), encoding="utf-8")
        after = identities()
    finally:
        path.unlink() if kept is None else path.write_text(kept, encoding="utf-8")
    assert after.keys() == before.keys()
    changed = {own for own in before if before[own] != after[own]}
    assert changed == (set(before) if expected is EVERYTHING else expected)
