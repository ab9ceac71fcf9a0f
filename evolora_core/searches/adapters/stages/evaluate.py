"""Stage `evaluate`: one condition with one seed answers the three holdouts and those of files, with every router of the
suite, some items with its one adapter at several strengths, and those in distribution in other forms.

A killed one keeps its answers."""

from typing import TYPE_CHECKING

from pydantic import BaseModel, JsonValue

from evolora_core.engine.stage import JUDGED, Made, NotRun, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.searches.adapters.evaluation.chosen import Chosen
from evolora_core.searches.adapters.evaluation.settings import Evaluation, Frontier

if TYPE_CHECKING:
    from evolora_core.language.hosts.host import Host
    from evolora_core.searches.adapters.experiment import SuiteConfig


class Evaluated(BaseModel):
    """Accuracy of the headline by split, and what two evaluations must share to be compared, their code apart."""

    holdout_id_acc: float
    holdout_ood_acc: float
    retention_acc: float
    comparable: dict[str, JsonValue]


def request(
    suite: "Suite[SuiteConfig]",
    condition: str,
    seed: int,
    *,
    datasets: StageResult,
    holdouts: StageResult | None = None,
    trained: StageResult | None = None,
) -> StageRequest:
    """Evaluate `condition`, whose adapters are in `trained` (None: the bare host); items of files are in `holdouts`."""
    asked, data = suite.config.evaluation, suite.config.data
    further = holdouts.facts(Chosen).families if holdouts else []
    strengths = sorted({1.0, *asked.strengths}) if trained else [0.0]
    return stage_request(
        suite,
        JUDGED,
        condition,
        seed,
        entry=__name__,
        also=suite.config.modules_of(data.train_families, data.ood_families, data.retention_families, further),
        config=Evaluation(
            condition=condition,
            routings=list(asked.routings) if trained else [],
            decoding=suite.config.decoding,
            frontier=Frontier(strengths=strengths, items=asked.frontier_items) if asked.strengths else None,
            variants=asked.variants,
        ),
        inputs={"datasets": datasets}
        | ({"holdouts": holdouts} if holdouts else {})
        | ({"trained": trained} if trained else {}),
    )


def make(work: Work[Evaluation]) -> Made[Evaluated] | Made[NotRun]:
    """Leaves the tables `evaluations`, `compute` and, where asked for, `frontier` and `variants`. The arm of the first
    router is named like the condition. Of a condition that was not run, only the reason.
    """
    if "trained" in work.results and "not_run" in work.results["trained"].summary:
        return Made(0, work.results["trained"].facts(NotRun))
    from evolora_core.engine.tables import write_table
    from evolora_core.language.datasets import read_items
    from evolora_core.language.hosts.kept import stage_host
    from evolora_core.language.splits import HOLDOUTS
    from evolora_core.searches.adapters.evaluation.condition import evaluate_condition

    host = stage_host(work)
    folders = dict.fromkeys(HOLDOUTS, work.inputs["datasets"])
    if "holdouts" in work.results:
        folders |= dict.fromkeys(work.results["holdouts"].facts(Chosen).root, work.inputs["holdouts"])
    found = evaluate_condition(
        host,
        work.config,
        {split: read_items(folder / f"{split}.jsonl") for split, folder in folders.items()},
        work.inputs.get("trained"),
        foreign=work.inputs["datasets"] / "reselection.jsonl",
        progress=work.report,
        answered=work.folder / ".answered",
    )
    for name, rows in found.tables.items():
        write_table(work.folder, name, rows)
    comparable = _comparable(work, host)
    return Made(found.meter.total(), Evaluated.model_validate({**found.accuracies, "comparable": comparable}))


def _comparable(work: Work[Evaluation], host: "Host") -> dict[str, JsonValue]:
    further = {"holdouts": work.results["holdouts"].identity} if "holdouts" in work.results else {}
    return {
        "host": host.identity["weights_sha256"],
        "tokenizer": host.identity["tokenizer_sha256"],
        "template": host.identity["template_sha256"],
        "dtype": host.identity["dtype"],
        "decoding": work.config.decoding.model_dump(mode="json"),
        "dataset": work.results["datasets"].identity,
        **further,
    }


EVALUATE = Stage(JUDGED, request, make)
