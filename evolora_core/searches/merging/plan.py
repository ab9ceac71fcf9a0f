"""The plan of a merge search, for each seed: datasets, base → parents → every condition's model → the sealed test.

A landscape or a law, where a suite asks for one, hangs on the same datasets.
"""

from collections.abc import Sequence

from evolora_core.engine.stage import JUDGED, SHARED, Stage, Step, Suite, step_name
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
    """All stages: what the others wait for first, then the strategies, which take longest."""
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
    from evolora_core.searches.merging.weights import layers_in, model_path

    if suite.config.pretrain:
        layers = pretrain_config(suite.config.host).architecture.layers
    elif suite.host is None or (path := model_path(suite.host.word)).is_file():
        return
    else:
        layers = layers_in(tuple(read_headers(path, weight_files(path))))
    assert suite.config.landscape is not None
    check_size(space_of(suite.config.parents, layers), suite.config.landscape.shards)


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
