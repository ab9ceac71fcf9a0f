"""Stage `ensemble`: the best programs of a search answer together, beside as many models of the chosen one.

The probabilities of the models are averaged. Models of one program that differ by their training seed are the control:
averaging helps in any case. Both have as many models; a program that was tried may cost more FLOPs than another.
"""

from typing import TYPE_CHECKING, Any

from evolora_core.engine.stage import Made, NoFacts, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.searches.attention.settings import Fresh
from evolora_core.searches.attention.stages.loaded import LOADED

if TYPE_CHECKING:
    import numpy as np

    from evolora_core.searches.attention.experiment import AttentionExperiment


class Averaging(Fresh):
    """Which models answer together."""

    models: int


def request(
    suite: "Suite[AttentionExperiment]",
    condition: str,
    seed: int,
    *,
    corpus: StageResult,
    rates: StageResult,
    chosen: StageResult,
) -> StageRequest:
    """Average over what a strategy found."""
    from evolora_core.searches.attention.seeds import fresh_seeds

    config = suite.config
    own = Averaging(
        models=config.ensemble.models,
        sizes=config.ensemble.sizes,
        seeds=fresh_seeds(seed, config.ensemble.models),
        training=config.training,
        bounds=config.budget.bounds,
        trusted=config.trusted(condition),
    )
    inputs = {"corpus": corpus, "rates": rates, "chosen": chosen}
    return stage_request(suite, "ensemble", condition, seed, entry=__name__, also=LOADED, config=own, inputs=inputs)


def make(work: Work[Averaging]) -> Made[NoFacts]:
    """Leaves the tables `attention_ensembles` and `compute`."""
    import numpy as np

    from evolora_core.engine.meter import Meter
    from evolora_core.engine.progress import part_of
    from evolora_core.engine.tables import write_table
    from evolora_core.searches.attention.chosen import read_finalists
    from evolora_core.searches.attention.corpus.base import load
    from evolora_core.searches.attention.curves import Curve
    from evolora_core.searches.attention.measuring import measure_all
    from evolora_core.searches.attention.panel import Panel, select
    from evolora_core.searches.attention.stages.rates import read_rates

    own, meter = work.config, Meter()
    best, *others = read_finalists(work.inputs["chosen"])[: own.models]
    corpus = select(load(work.inputs["corpus"]), "test")
    seeds = own.seeds[: 1 + len(others)]
    rows = []
    with Panel(
        corpus, own.training, read_rates(work.inputs["rates"]), own.bounds, trusted=own.trusted, keep=work.folder
    ) as panel:
        share = 1 / (1 + len(others))
        report = part_of(work.report, 0, share, 1)
        chosen = measure_all(panel, "the chosen program", best, own.sizes, seeds, meter, "evaluation", report, Curve())
        curves = [
            measure_all(
                panel, f"finalist {number}", source, own.sizes, [seeds[number - 1]], meter, "evaluation",
                part_of(work.report, (number - 1) * share, share, 1), chosen,
            )
            for number, source in enumerate(others, start=2)
        ]  # fmt: skip
    for size in own.sizes:
        members = {
            "programs": np.stack([own.texts[size, seed] for own, seed in zip([chosen, *curves], seeds, strict=True)]),
            "seeds": np.stack([chosen.texts[size, seed] for seed in seeds]),
        }
        rows += [_row(size, name, losses) for name, losses in members.items()]
    write_table(work.folder, "attention_ensembles", rows)
    write_table(work.folder, "compute", meter.rows())
    return Made(meter.total(), NoFacts())


def _row(size: str, members: str, losses: "np.ndarray") -> dict[str, Any]:
    """What models with the losses `[models, texts]` (nats) come to together."""
    from evolora_core.searches.attention.scaling.losses import together

    return {
        "size": size,
        "members": members,
        "models": len(losses),
        "loss": float(together(losses).mean()),
        "alone": float(losses.mean(dtype="float64")),
    }


ENSEMBLE = Stage("ensemble", request, make)
