"""Bases of many architectures: what a candidate is, it is measured as, and what cannot be merged is refused at once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from searches.merging.small_pool import DATA, DOMAINS
from tiny_merges import character_host, moved, route

from evolora_core.engine.rng import stream
from evolora_core.language.families.registry import gold
from evolora_core.language.hosts.host import load_host
from evolora_core.searches.merging.data import draw_splits
from evolora_core.searches.merging.judging.judge import Failed, Judge
from evolora_core.searches.merging.judging.prefixes import Prefixes
from evolora_core.searches.merging.judging.scoring import Questions
from evolora_core.searches.merging.pool import Pool
from evolora_core.searches.merging.recipe import Genome
from evolora_core.searches.merging.spaces.registry import make_space
from evolora_core.searches.merging.spaces.routes import Routes
from evolora_core.searches.merging.weights import Loaded

# What each does to its logits is far from nothing.
SCALED: dict[str, dict[str, Any]] = {
    "granite": {"logits_scaling": 8.0},
    "cohere": {"logit_scale": 0.25},
    "gemma2": {"final_logit_softcapping": 2.0},
}
GEMMA3: dict[str, Any] = {
    "num_hidden_layers": 4,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "full_attention"],
    "sliding_window": 4,
    "final_logit_softcapping": 2.0,
}


def tiny_judge(folder: Path, architecture: str, **changes: Any) -> Judge:
    """A judge of two random parents of a random base."""
    host = character_host(folder, architecture, **changes)
    models = {"base": Loaded.of(host.model)}
    for seed, name in enumerate("ab", 1):
        own = load_host(str(folder)).model
        models[name] = Loaded.of(moved(own, seed))
    weights = {name: domain.weight for name, domain in DOMAINS.items()}
    items = draw_splits(DOMAINS, DATA, 3)["search"]
    return Judge(Pool(host, ("a", "b"), dict(models)), {"search": Questions.of(host, items, weights)})


@pytest.mark.parametrize("architecture", SCALED)
def test_a_score_is_that_of_the_model_s_own_logits(architecture: str, tmp_path: Path) -> None:
    judge = tiny_judge(tmp_path, architecture, **SCALED[architecture])
    found, host = judge.measure_model(judge.pool.host.model, "search"), judge.pool.host
    items = judge.questions["search"].items[: DATA.search]
    total, tokens = 0.0, 0
    for item in items:
        (prompt,), (answer,) = host.encode_prompts([item.prompt]), host.encode_answers([gold(item)])
        logits = host.model(input_ids=torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
        total -= torch.nn.functional.cross_entropy(logits, torch.tensor(answer), reduction="sum").item()
        tokens += len(answer)
    assert found.domains[0] == pytest.approx(total / tokens, abs=1e-4)


def test_a_route_runs_its_own_kinds_of_layers_whatever_was_measured_before(tmp_path: Path) -> None:
    judge = tiny_judge(tmp_path, "gemma3_text", **GEMMA3)
    routes = [Genome(recipe=route(*((0, layer) for layer in layers))) for layers in ((0, 1, 2, 3), (2, 2, 3, 3))]
    alone = [Judge(judge.pool, judge.questions).measure(own).score for own in routes]
    assert [judge.measure(own).score for own in [*routes, routes[0]]] == [*alone, alone[0]]


@pytest.mark.parametrize(("architecture", "changes"), [("gemma3_text", GEMMA3), ("cohere", SCALED["cohere"])])
def test_a_walk_scales_and_caps_logits_as_whole_models_do(
    architecture: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    judge = tiny_judge(tmp_path, architecture, **changes)
    Prefixes(judge, Routes(judge.pool.parents, judge.pool.layers, "base")).check()


def test_a_base_that_counts_its_layers_by_another_word_is_merged(tmp_path: Path) -> None:
    """GPT-Neo's configuration says `num_layers`."""
    kinds = {"num_heads": 4, "attention_types": [[["global", "local"], 1]]}
    judge = tiny_judge(tmp_path, "gpt_neo", num_hidden_layers=2, num_attention_heads=4, **kinds)
    assert judge.pool.layers == 2 and "num_hidden_layers" not in judge.pool.models["base"].config
    mean = make_space("smooth", judge.pool.parents, judge.pool.layers, 2).seeds(stream(0, 0, 0, "test"))[0][0]
    assert np.isfinite(judge.measure(mean).score)


def test_a_recipe_that_a_base_cannot_have_costs_nothing_and_fails(tmp_path: Path) -> None:
    """Scales cannot be written into weights of Gemma's layers."""
    judge = tiny_judge(tmp_path, "gemma3_text", **GEMMA3)
    scaled = Genome(recipe=route(*((0, layer, 0.5) for layer in range(judge.pool.layers))))
    assert judge.cost(scaled) == 0 and not judge.meter.total()
    with pytest.raises(Failed, match="Misfit: .*cannot be written into weights"):
        judge.measure(scaled)
