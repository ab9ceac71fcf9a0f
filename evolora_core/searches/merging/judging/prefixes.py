"""Measures layer routes that begin alike: what the layers that two routes share make of the items is computed once.

Routes are walked in the order of a tree. The hidden states behind each position of the last route are kept, so that the
next one only runs the layers behind those that both begin with. With nine genes at each of four positions that are 1.5
layers a model on average instead of 5.3.
"""

import time
from collections.abc import Sequence
from typing import Any

import torch

from evolora_core.engine.probes import span
from evolora_core.errors import ConfigError
from evolora_core.language.flops import FlopModel
from evolora_core.searches.merging.build import merged_config, merged_tensor
from evolora_core.searches.merging.judging.judge import PURPOSES, Judge
from evolora_core.searches.merging.judging.scoring import Batch, Judgement, Questions, judge_by
from evolora_core.searches.merging.models import fill, shell
from evolora_core.searches.merging.recipe import Genome, Route
from evolora_core.searches.merging.roles import BASE
from evolora_core.searches.merging.spaces.routes import Genes, Routes

NEAR = 1e-4  # nats: by how much the sum of the same layers in another arrangement may differ

States = dict[str, list[torch.Tensor]]  # of each split: hidden states [rows, tokens, width] of its batches


class Prefixes:
    """The walk. `judge(genes)` measures a route on every split of `judge.questions`, and charges its meter: budget
    FLOPs of the whole route, executed FLOPs of the layers that were run. costs: by split, those of a layer and of the
    head.
    """

    def __init__(self, judge: Judge, space: Routes) -> None:
        self._judge, self._space = judge, space
        host = judge.pool.host
        self._layers: dict[tuple[int, int], Any] = {}  # decoder of one layer, by parent and position
        self._top = self._one_layer(0, 0)  # what follows the layers, with what the architecture does to logits
        self._top.get_decoder().layers = torch.nn.ModuleList()
        embed = host.model.get_input_embeddings()
        with torch.inference_mode():
            first = {split: [embed(batch.ids) for batch in asked.batches] for split, asked in judge.questions.items()}
        self._behind: list[States] = [first]  # [k]: behind k positions of the last route
        self._last: Genes = ()
        self.costs = {split: self._cost(asked) for split, asked in judge.questions.items()}

    def check(self) -> None:
        """A parent's own layers, one by one, are that parent. ConfigError where the architecture has it otherwise."""
        genes = (self._space.gene(0, 1),) * self._space.layers
        split = next(iter(self._judge.questions))
        found = self.judge(genes)[split].score
        whole = self._judge.measure_model(self._judge.merged(self._space.genome(genes)), split).score
        if not abs(found - whole) <= NEAR:
            name = type(self._judge.pool.host.model).__name__
            raise ConfigError(
                f"landscape: the layers of {name} one by one are not the model ({found:.4f} instead of {whole:.4f} "
                "nats); take a base of another architecture"
            )

    def judge(self, genes: Genes) -> dict[str, Judgement]:
        """Measure a route on every split."""
        shared = 0
        while shared < len(self._last) and self._last[shared] == genes[shared]:
            shared += 1
        self._behind[shared + 1 :] = [{} for _ in genes[shared:]]
        genotype = self._space.genotype(genes)
        passed = [count for _, count in genotype]
        found: dict[str, Judgement] = {}
        seconds: dict[str, float] = {}
        for split in self._judge.questions:
            started = time.monotonic()
            with span("judge"), torch.inference_mode():
                found[split] = self._measure(split, genotype, shared)
            seconds[split] = time.monotonic() - started
        self._last = genes
        for split, asked in self._judge.questions.items():
            layer, head = self.costs[split]
            whole, run = layer * sum(passed) + head, layer * sum(passed[shared:]) + head
            self._judge.meter.add(PURPOSES[split], whole, asked.tokens, seconds[split], run)
        return found

    def _measure(self, split: str, genotype: Sequence[tuple[int, int]], shared: int) -> Judgement:
        """Run the layers behind position `shared`, and read off the answers."""
        for position in range(shared, len(genotype)):
            parent, count = genotype[position]
            states = self._behind[position][split]
            for _ in range(count):
                layer = self._layer(parent, position)
                states = [layer(inputs_embeds=own, use_cache=False).last_hidden_state for own in states]
            self._behind[position + 1][split] = states
        hidden = iter(self._behind[-1][split])

        def log_probabilities(batch: Batch) -> torch.Tensor:
            answers = next(hidden).flatten(0, 1)[batch.places]
            logits = self._top(inputs_embeds=answers[:, None], use_cache=False).logits[:, 0]
            return torch.log_softmax(logits.float(), dim=-1)

        return judge_by(log_probabilities, self._judge.questions[split])

    def _layer(self, parent: int, position: int) -> Any:
        """A parent's layer as a decoder of its own, without the last norm."""
        if (parent, position) not in self._layers:
            decoder = self._one_layer(parent, position).get_decoder()
            decoder.norm = torch.nn.Identity()
            self._layers[parent, position] = decoder
        return self._layers[parent, position]

    def _one_layer(self, parent: int, position: int) -> Any:
        """A model of a parent's layer, with the base's embeddings, last norm and head."""
        pool = self._judge.pool
        whole = self._space.route(self._space.genome((self._space.gene(parent, 1),) * self._space.layers))
        route = Route(inputs=whole.inputs, route=[whole.route[position]], rest=whole.rest)
        genome = Genome(recipe=route)
        model = shell(merged_config(genome, pool.models, BASE), pool.host.device)
        fill(model, lambda name: merged_tensor(genome, name, pool.models, BASE))
        return model

    def _cost(self, asked: Questions) -> tuple[int, int]:
        """Budget FLOPs of (one layer, the head) on these questions."""
        host = self._judge.pool.host
        model = FlopModel.from_model(host.model)
        head = 2 * int(asked.answered.sum()) * model.head
        return (asked.flops(model) - head) // self._judge.pool.layers, head
