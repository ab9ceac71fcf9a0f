"""Stage `parent-NAME`: one of the models that are merged. A specialist of a domain, fine-tuned from the base, or a
model of the user's own, which is checked against the base.
"""

import json
from typing import TYPE_CHECKING

from pydantic import BaseModel

from evolora_core.engine.stage import SHARED, Made, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.engine.strict import Strict
from evolora_core.searches.merging.settings import Domain, FineTuning
from evolora_core.searches.merging.stages.base import named

if TYPE_CHECKING:
    from evolora_core.searches.merging.experiment import MergeExperiment


class Parent(Strict):
    """A model to be made of a domain's items, or (`model`) one that is there, with the hash of its files."""

    name: str
    domain: Domain | None
    training: FineTuning | None
    model: str | None
    files: str | None


class Drifted(BaseModel):
    """How far it is from the base: |τ| / |θ₀|."""

    drift: float


def request(
    suite: "Suite[MergeExperiment]",
    name: str,
    seed: int,
    width: int | None = None,
    *,
    base: StageResult,
    datasets: StageResult,
) -> StageRequest:
    """The parent `name` of a seed, of a base of that width."""
    config = suite.config
    word, files = config.models.get(name), None
    if word is not None:
        from evolora_core.searches.merging.weights import files_hash

        files = files_hash(word)
    own = Parent(
        name=name,
        domain=None if word else config.domains[name],
        training=None if word else config.specialists,
        model=word,
        files=files,
    )
    also = [] if word else config.modules_of({name: config.domains[name]})
    inputs = {"base": base} if word else {"base": base, "datasets": datasets}
    stage = named(width, f"parent-{name}")
    return stage_request(suite, stage, SHARED, seed, entry=__name__, also=also, config=own, inputs=inputs)


def make(work: Work[Parent]) -> Made[Drifted]:
    """Leaves the folder `model`, or source.json where the model was there, and the tables `merge_parents` and
    `compute`. Raises ConfigError for a model that cannot be merged with the base.
    """
    import time

    from evolora_core.engine.meter import Meter
    from evolora_core.engine.tables import write_table
    from evolora_core.language.hosts.identity import sha256_of_weights
    from evolora_core.searches.merging.compatibility import open_own
    from evolora_core.searches.merging.models import fill, shell
    from evolora_core.searches.merging.pool import base_host, open_made
    from evolora_core.searches.merging.roles import MODEL, SOURCE
    from evolora_core.searches.merging.stages.datasets import read_split
    from evolora_core.searches.merging.training import fine_tune, save_model
    from evolora_core.searches.merging.weights import Loaded, drift

    host, own, meter, started = base_host(work), work.config, Meter(), time.monotonic()
    base = Loaded.of(host.model)
    steps, loss = 0, None
    if own.model is not None:
        assert work.host is not None  # whose base is the suite's host
        open_own(own.name, own.model, base, work.host.word)
        told = {"model": own.model, "files": own.files}
        (work.folder / SOURCE).write_text(json.dumps(told), encoding="utf-8")
    else:
        assert own.domain is not None and own.training is not None
        model = shell(base.config, host.device)
        fill(model, base.get)
        items = read_split(work.inputs["datasets"], "train", {own.name: own.domain})[own.name]
        steps = own.training.steps
        spent = fine_tune(
            host,
            model,
            items,
            steps=steps,
            rows=own.training.rows,
            learning_rate=own.training.learning_rate,
            seed=work.seed,
            role=f"merge.specialist.{own.name}",
            after=lambda step: work.report(step, steps, "steps"),
        )
        loss = spent.loss
        meter.add("update", spent.flops, spent.tokens, time.monotonic() - started)
        save_model(model, host, work.folder / MODEL)
    far = drift(base, open_made(work.folder))
    files = sorted((work.folder / MODEL).glob("*.safetensors"))
    row = {"parent": own.name, "domain": own.name if own.domain else None, "drift": far, "steps": steps, "loss": loss}
    write_table(
        work.folder, "merge_parents", [row | {"weights_sha256": sha256_of_weights(files) if files else own.files}]
    )
    if meter.rows():
        write_table(work.folder, "compute", meter.rows())
    return Made(meter.total(), Drifted(drift=far))


PARENT = Stage("parent", request, make)
