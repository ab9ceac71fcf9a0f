"""Measures recipes and models of a run, and charges what that costs."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch

from evolora_core.engine.meter import Meter
from evolora_core.engine.probes import span
from evolora_core.errors import StageError
from evolora_core.foreign.text import error_line
from evolora_core.language.flops import FlopModel
from evolora_core.lora.population.passes import out_of_memory
from evolora_core.searches.merging.build import merge_flops, merged_config, merged_shapes, merged_tensor
from evolora_core.searches.merging.judging.scoring import Batch, Judgement, Questions, judge, judge_by
from evolora_core.searches.merging.models import fill, shell
from evolora_core.searches.merging.pool import Pool
from evolora_core.searches.merging.recipe import Genome
from evolora_core.searches.merging.roles import BASE

# What a measurement on a split is charged to.
PURPOSES = {"search": "rollout", "selection": "selection", "test": "evaluation"}

ORIGINS = ("_name_or_path", "architectures", "transformers_version")  # in a configuration, and nothing to a model


class Failed(StageError):
    """A candidate that cannot be measured: at which stage, and why. It is recorded and never wins; a condition that has
    no other ends with it.
    """

    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(reason)
        self.stage, self.reason = stage, reason


@dataclass
class Judge:
    """Measures on the splits `search` and `selection`. One model stays in memory and is filled anew, as long as
    candidates have its configuration.
    """

    pool: Pool
    questions: Mapping[str, Questions]
    meter: Meter = field(default_factory=Meter)
    _kept: tuple[str, Any] = ("", None)  # a configuration, and the model of it
    _flops: WeakKeyDictionary[Any, FlopModel] = field(default_factory=WeakKeyDictionary)  # by model

    def measure(self, genome: Genome, split: str = "search") -> Judgement:
        """Merge and measure. Failed: it cannot be merged, or gives NaN."""
        return self.measure_model(self.merged(genome), split)

    def merged(self, genome: Genome) -> Any:
        """The model of a recipe, valid until the next one."""
        started = time.monotonic()
        try:
            with span("merge"):
                merged_shapes(genome, self.pool.models, BASE)  # Misfit, before a model is made
                model = self._shell(genome)
                fill(model, lambda name: merged_tensor(genome, name, self.pool.models, BASE))
        except (ValueError, KeyError, RuntimeError) as error:
            if out_of_memory(error):  # no fault of the recipe
                raise
            raise Failed("merge", error_line(error, 200)) from error
        flops = merge_flops(genome, self.pool.models)
        self.meter.add("assimilation", flops, 0, time.monotonic() - started)
        return model

    def measure_model(self, model: Any, split: str) -> Judgement:
        """Measure any model of this architecture."""
        return self._charged(lambda: judge(model, self.questions[split]), self.cost_of(model, split), split)

    def measure_by(self, log_probabilities: Callable[[Batch], torch.Tensor], models: int) -> Judgement:
        """Measure what asks so many models of the base's depth, on the search items."""
        cost = models * self.plain_cost()
        return self._charged(lambda: judge_by(log_probabilities, self.questions["search"]), cost, "search")

    def _charged(self, judged: Callable[[], Judgement], cost: int, split: str) -> Judgement:
        started = time.monotonic()
        with span("judge"), torch.inference_mode():
            found = judged()
        self.meter.add(PURPOSES[split], cost, self.questions[split].tokens, time.monotonic() - started)
        if not np.isfinite(found.domains).all():
            raise Failed("judge", "its log-likelihood is not finite")
        return found

    def plain_cost(self, split: str = "search") -> int:
        """FLOPs of measuring a model as deep as the base."""
        return self.cost_of(self.pool.host.model, split)

    def item_costs(self) -> np.ndarray:
        """`[items]` FLOPs of asking a model as deep as the base each search item; together they are `plain_cost`."""
        return self.questions["search"].item_flops(self._flop_model(self.pool.host.model))

    def cost(self, genome: Genome, split: str = "search") -> int:
        """FLOPs of merging and measuring a recipe, which may be deeper. 0 for one that cannot be merged."""
        try:
            merged_shapes(genome, self.pool.models, BASE)  # Misfit
            flops = merge_flops(genome, self.pool.models)
            model = self._shell(genome)
        except (ValueError, KeyError, RuntimeError) as error:
            if out_of_memory(error):
                raise
            return 0
        return flops + self.cost_of(model, split)

    def cost_of(self, model: Any, split: str) -> int:
        """FLOPs of measuring a model."""
        return self.questions[split].flops(self._flop_model(model))

    def _flop_model(self, model: Any) -> FlopModel:
        if model not in self._flops:
            self._flops[model] = FlopModel.from_model(model)
        return self._flops[model]

    def _shell(self, genome: Genome) -> Any:
        """A model of the recipe's configuration, to be filled. Routes differ in depth, and in what is said of single
        layers (`layer_types`).
        """
        config = merged_config(genome, self.pool.models, BASE)
        told = json.dumps({key: config[key] for key in config if key not in ORIGINS}, sort_keys=True, default=str)
        if self._kept[0] != told:
            self._kept = ("", None)  # before there is another one: memory holds one
            self._kept = (told, shell(config, self.pool.host.device))
        return self._kept[1]
