"""The plan of a merge search, for each seed: datasets, base → parents → every condition's model → the sealed test.

A landscape or a law, where a suite asks for one, hangs on the same datasets.
"""

from collections.abc import Sequence
from pathlib import Path

from evolora_core.engine.run_index import step_name
from evolora_core.engine.stage import JUDGED, SHARED, Stage, Step, Suite
from evolora_core.errors import ConfigError
from evolora_core.language.hosts.pretrain_config import pretrain_config
from evolora_core.searches.merging.experiment import MergeExperiment
from evolora_core.searches.merging.names import STRATEGIES
from evolora_core.searches.merging.stages.base import BASE, named
from evolora_core.searches.merging.stages.choosing import CONTROL, SEARCH
from evolora_core.searches.merging.stages.datasets import DATASETS
from evolora_core.searches.merging.stages.evaluate import EVALUATE
from evolora_core.searches.merging.stages.landmarks import LANDMARKS, space_of
from evolora_core.searches.merging.stages.landscape import LANDSCAPE, check_size
from evolora_core.searches.merging.stages.law import LAW
from evolora_core.searches.merging.stages.law_fit import LAW_FIT
from evolora_core.searches.merging.stages.parent import PARENT
from evolora_core.searches.merging.stages.regret import REGRET

Needs = dict[str, Step | Sequence[Step] | None]


def plan(suite: Suite[MergeExperiment]) -> list[Step]:
    """All stages: what the others wait for first, then the strategies, which take longest. ConfigError for a base that
    a landscape or a space cannot have.
    """
    _check_flow(suite)
    shared: list[Step] = []
    chosen: list[Step] = []
    judged: list[Step] = []
    for seed in suite.config.seeds:
        data = _shared(suite, seed, "datasets", DATASETS)
        made = family(suite, seed, data)
        needs: Needs = {"base": made[0], "datasets": data, "parents": made[1:]}
        shared += [data, *made]
        if suite.config.landscape:
            shared += landscape(suite, seed, needs)
        if suite.config.law:
            shared += law(suite, seed, data)
        for condition in suite.config.conditions:
            given = {"suite": suite, "condition": condition, "seed": seed}
            stage = SEARCH if suite.config.kind(condition).name in STRATEGIES else CONTROL
            own = Step(step_name(condition, seed, stage.name), stage, given, needs)
            chosen.append(own)
            judged.append(Step(step_name(condition, seed, JUDGED), EVALUATE, given, {**needs, "chosen": own}))
    chosen.sort(key=lambda step: step.stage is not SEARCH)  # stable
    return [*shared, *chosen, *judged]


def family(suite: Suite[MergeExperiment], seed: int, data: Step, width: int | None = None) -> list[Step]:
    """The base of a seed, and its parents."""
    base = _shared(suite, seed, named(width, "base"), BASE, width=width)
    needs: Needs = {"base": base, "datasets": data}
    return [
        base,
        *(
            _shared(suite, seed, named(width, f"parent-{name}"), PARENT, needs, name=name, width=width)
            for name in suite.config.parents
        ),
    ]


def landscape(suite: Suite[MergeExperiment], seed: int, needs: Needs) -> list[Step]:
    """Every layer route, and strategies replayed on them."""
    settings = suite.config.landscape
    assert settings is not None
    _check_landscape(suite)
    shards = [
        _shared(suite, seed, f"landscape-{shard}", LANDSCAPE, needs, shard=shard) for shard in range(settings.shards)
    ]
    known: Needs = {"shards": shards}
    return [
        *shards,
        _shared(suite, seed, "landmarks", LANDMARKS, known),
        *(_shared(suite, seed, f"regret-{name}", REGRET, known, strategy=name) for name in settings.strategies),
    ]


def _check_landscape(suite: Suite[MergeExperiment]) -> None:
    """ConfigError for a base of too many layers, before anything is trained. Of a base that is not on this machine, or
    in a GGUF file, the stage itself says it.
    """
    from evolora_core.language.hosts.folder import weight_files
    from evolora_core.searches.merging.headers import read_headers
    from evolora_core.searches.merging.weights import layers_in

    if suite.config.pretrain:
        layers = pretrain_config(suite.config.host).architecture.layers
    elif folder := _base_folder(suite):
        layers = layers_in(tuple(read_headers(folder, weight_files(folder))))
    else:
        return
    assert suite.config.landscape is not None
    check_size(space_of(suite.config.parents, layers), suite.config.landscape.shards)


def _check_flow(suite: Suite[MergeExperiment]) -> None:
    """ConfigError for a condition in the space `flow` on a base that cannot have scales: none of its recipes could be
    measured. As for a landscape, the stage itself says it of other bases; those that a suite trains can have them.
    """
    from evolora_core.language.hosts.folder import load_config
    from evolora_core.searches.merging.folding import FOLDABLE

    config = suite.config
    scaled = [condition for condition in config.conditions if config.space(condition) == "flow"]
    if not scaled or config.pretrain or (folder := _base_folder(suite)) is None:
        return
    kind = load_config(folder).model_type
    if kind not in FOLDABLE:
        raise ConfigError(
            f"arms.{scaled[0]}.space: scales of {kind} layers cannot be written into weights; take the space "
            f"`routes`, or a base of {', '.join(FOLDABLE)}"
        )


def _base_folder(suite: Suite[MergeExperiment]) -> Path | None:
    """The base's folder. None: it is a GGUF file, or not on this machine."""
    from evolora_core.searches.merging.weights import model_path

    if suite.host is None or (path := model_path(suite.host.word)).is_file():
        return None
    return path


def law(suite: Suite[MergeExperiment], seed: int, data: Step) -> list[Step]:
    """Every subset of the parents of every width, and the fit."""
    settings = suite.config.law
    assert settings is not None
    steps: list[Step] = []
    merges: list[Step] = []
    for width in settings.widths:
        base, *parents = family(suite, seed, data, width)
        needs: Needs = {"base": base, "datasets": data, "parents": parents}
        merges.append(_shared(suite, seed, named(width, "law"), LAW, needs, width=width))
        steps += [base, *parents]
    return [*steps, *merges, _shared(suite, seed, "law-fit", LAW_FIT, {"merges": merges})]


def _shared(
    suite: Suite[MergeExperiment], seed: int, called: str, stage: Stage, needs: Needs | None = None, **given: object
) -> Step:
    """A step that all conditions share."""
    return Step(step_name(SHARED, seed, called), stage, {"suite": suite, "seed": seed, **given}, needs or {})
