"""Stage `ablate`: the chosen program without each of its genes, on fresh training seeds and unseen texts."""

from typing import TYPE_CHECKING

from pydantic import Field

from evolora_core.engine.stage import Made, NoFacts, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.searches.attention.settings import Fresh
from evolora_core.searches.attention.stages.loaded import LOADED

if TYPE_CHECKING:
    from evolora_core.searches.attention.experiment import AttentionExperiment

WHOLE = "whole"  # the chosen program as it is


class Ablating(Fresh):
    """What is left out where."""

    framework: str
    parallel: int = Field(exclude=True)  # measured at a time: no result depends on it, nor the identity


def request(
    suite: "Suite[AttentionExperiment]",
    condition: str,
    seed: int,
    *,
    corpus: StageResult,
    rates: StageResult,
    chosen: StageResult,
) -> StageRequest:
    """Ablate what a strategy chose."""
    from evolora_core.searches.attention.seeds import fresh_seeds

    config = suite.config
    framework = config.framework_of(condition)
    own = Ablating(
        framework=framework,
        parallel=config.budget.parallel,
        sizes=config.ablation.sizes,
        seeds=fresh_seeds(seed, config.ablation.seeds),
        training=config.training,
        bounds=config.budget.bounds,
        trusted=config.trusted(condition),
    )
    grammar = f"evolora_core.searches.attention.grammar.{framework.replace('-', '_')}"
    inputs = {"corpus": corpus, "rates": rates, "chosen": chosen}
    return stage_request(
        suite, "ablate", condition, seed, entry=__name__, also=[*LOADED, grammar], config=own, inputs=inputs
    )


def make(work: Work[Ablating]) -> Made[NoFacts]:
    """Leaves the tables `attention_ablations`, `attention_losses` and `compute`."""
    import numpy as np

    from evolora_core.engine.meter import Meter
    from evolora_core.engine.tables import write_table
    from evolora_core.searches.attention.chosen import read_chosen
    from evolora_core.searches.attention.corpus.base import load
    from evolora_core.searches.attention.curves import Curve
    from evolora_core.searches.attention.grammar.registry import get_grammar
    from evolora_core.searches.attention.grammar.vary import ablations
    from evolora_core.searches.attention.measuring import loss_rows, measure_programs
    from evolora_core.searches.attention.panel import Panel, select
    from evolora_core.searches.attention.scaling.intervals import finite, of_crossed
    from evolora_core.searches.attention.stages.rates import read_rates

    own, meter = work.config, Meter()
    chosen, grammar = read_chosen(work.inputs["chosen"]), get_grammar(own.framework)
    parts = ablations(grammar, chosen.genome) if chosen.genome is not None else []
    corpus = select(load(work.inputs["corpus"]), "test")
    programs = {gene: grammar.program(genome) for gene, genome in parts}
    with Panel(
        corpus, own.training, read_rates(work.inputs["rates"]), own.bounds, trusted=own.trusted, parallel=own.parallel,
        keep=work.folder,
    ) as panel:  # fmt: skip
        asked = (own.sizes, own.seeds, meter, "evaluation", work.report)
        whole = measure_programs(panel, {WHOLE: chosen.source}, *asked, Curve())[WHOLE]
        curves = measure_programs(panel, programs, *asked, whole)
    losses, rows = loss_rows(WHOLE, whole, "test"), []
    for gene, curve in curves.items():
        losses += loss_rows(f"without-{gene}", curve, "test")
        assert chosen.genome is not None
        for size in own.sizes:
            gaps = np.stack([curve.texts[size, seed].astype(float) - whole.texts[size, seed] for seed in own.seeds])
            found = of_crossed(gaps)
            rows.append(
                {
                    "gene": gene,
                    "choice": chosen.genome[gene],
                    "size": size,
                    "seeds": len(own.seeds),
                    "loss": found.value,
                    "lo": finite(found.lo),
                    "hi": finite(found.hi),
                }
            )
    if rows:
        write_table(work.folder, "attention_ablations", rows)
    write_table(work.folder, "attention_losses", losses)
    write_table(work.folder, "compute", meter.rows())
    return Made(meter.total(), NoFacts())


ABLATE = Stage("ablate", request, make)
