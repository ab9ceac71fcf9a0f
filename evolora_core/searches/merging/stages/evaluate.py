"""Stage `evaluate`: the model that a condition chose answers the sealed test, once. No other stage reads it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, JsonValue

from evolora_core.engine.stage import JUDGED, Made, NotRun, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.engine.strict import Strict
from evolora_core.language.decoding import DecodingConfig
from evolora_core.searches.merging.roles import role
from evolora_core.searches.merging.settings import Domain

if TYPE_CHECKING:
    from evolora_core.language.families.base import Item
    from evolora_core.lora.answering.outcome import Outcome
    from evolora_core.searches.merging.choice import Choice
    from evolora_core.searches.merging.experiment import MergeExperiment
    from evolora_core.searches.merging.pool import Pool

TEST = "test"


class Evaluation(Strict):
    """What is asked of a condition."""

    condition: str
    parents: list[str]
    domains: dict[str, Domain]
    decoding: DecodingConfig


class Evaluated(BaseModel):
    """Accuracy on the test, and what two evaluations must share to be compared, their code apart."""

    test_acc: float
    comparable: dict[str, JsonValue]


def request(
    suite: "Suite[MergeExperiment]",
    condition: str,
    seed: int,
    *,
    base: StageResult,
    datasets: StageResult,
    parents: Sequence[StageResult],
    chosen: StageResult,
) -> StageRequest:
    """Test what a condition chose."""
    config = suite.config
    named = {role(name): result for name, result in zip(config.parents, parents, strict=True)}
    return stage_request(
        suite,
        JUDGED,
        condition,
        seed,
        entry=__name__,
        also=config.modules_of(config.domains),
        config=Evaluation(
            condition=condition, parents=config.parents, domains=config.domains, decoding=config.decoding
        ),
        inputs={"base": base, "datasets": datasets, "chosen": chosen, **named},
    )


def make(work: Work[Evaluation]) -> Made[Evaluated] | Made[NotRun]:
    """Leaves the tables `evaluations` and `compute`. Of a condition that was not run, only the reason."""
    if "not_run" in work.results["chosen"].summary:
        return Made(0, work.results["chosen"].facts(NotRun))
    import time

    from evolora_core.engine.meter import Meter
    from evolora_core.engine.tables import write_table
    from evolora_core.lora.answering.outcome import evaluation_rows
    from evolora_core.searches.merging.choice import read_choice
    from evolora_core.searches.merging.pool import pool_of
    from evolora_core.searches.merging.stages.datasets import read_split

    own, started, meter = work.config, time.monotonic(), Meter()
    pool = pool_of(work, own.parents)
    domains = read_split(work.inputs["datasets"], TEST, own.domains)
    items = [item for found in domains.values() for item in found]
    outcomes = _answers(work, pool, read_choice(work.inputs["chosen"]), items)
    of = [name for name, found in domains.items() for _ in found]
    rows = evaluation_rows(TEST, own.condition, outcomes)
    for row, domain in zip(rows, of, strict=True):
        del row["organelle"]  # there are none
        row["domain"] = domain
    flops = sum(outcome.flops for outcome in outcomes)
    tokens = sum(outcome.prompt_tokens + outcome.answer_tokens for outcome in outcomes)
    meter.add("evaluation", flops, tokens, time.monotonic() - started)
    write_table(work.folder, "evaluations", rows)
    write_table(work.folder, "compute", meter.rows())
    acc = sum(outcome.grade.correct for outcome in outcomes) / len(outcomes)
    identity = pool.host.identity
    comparable: dict[str, JsonValue] = {
        "base": identity["weights_sha256"],
        "tokenizer": identity["tokenizer_sha256"],
        "template": identity["template_sha256"],
        "dtype": identity["dtype"],
        "decoding": own.decoding.model_dump(mode="json"),
        "dataset": work.results["datasets"].identity,
        "parents": [work.results[role(name)].identity for name in own.parents],
    }
    return Made(flops, Evaluated(test_acc=acc, comparable=comparable))


def _answers(work: Work[Evaluation], pool: "Pool", choice: "Choice", items: "list[Item]") -> "list[Outcome]":
    """Greedy answers of the chosen model, an ordinary one or an ensemble."""
    from evolora_core.lora.answering.grading import answer_items
    from evolora_core.searches.merging.controls.ensemble import members
    from evolora_core.searches.merging.judging.answering import answer_together

    decoding = work.config.decoding
    if choice.kind == "ensemble":
        return answer_together(pool.host, members(pool), items, decoding, work.report)
    host = replace(pool.host, model=chosen_model(work, pool, choice))
    return answer_items(host, None, items, [-1] * len(items), decoding=decoding, progress=work.report)


def chosen_model(work: Work[Evaluation], pool: "Pool", choice: "Choice") -> Any:
    """The model, made of its recipe or read from where its condition left it."""
    from evolora_core.searches.merging.build import merged_config, merged_tensor
    from evolora_core.searches.merging.models import fill, shell
    from evolora_core.searches.merging.roles import BASE, MODEL
    from evolora_core.searches.merging.weights import open_loaded

    if choice.genome is None:
        weights = open_loaded(str(work.inputs["chosen"] / MODEL))
        model = shell(weights.config, pool.host.device)
        fill(model, weights.get)
        return model
    model = shell(merged_config(choice.genome, pool.models, BASE), pool.host.device)
    genome = choice.genome
    fill(model, lambda name: merged_tensor(genome, name, pool.models, BASE))
    return model


EVALUATE = Stage(JUDGED, request, make)
