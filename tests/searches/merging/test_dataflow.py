"""A route with scales, written into weights, answers as the layers in a row with scaled inputs do."""

import pytest
import torch
from searches.merging.routed_models import routed_model
from tiny_merges import build, family, genome, route

from evolora_core.errors import ConfigError
from evolora_core.searches.merging.build import merged_config
from evolora_core.searches.merging.folding import FOLDABLE
from evolora_core.searches.merging.models import fill, shell

IDS = torch.tensor([[1, 9, 33, 12, 40, 7], [1, 8, 8, 30, 21, 5]])
SCALED = route((0, 0, 1.3), (1, 1, 0.6), (1, 2, 1.0), (0, 2, 2.5), (0, 2, 0.8), rest=1)


def logits(model: object) -> torch.Tensor:
    with torch.inference_mode():
        found: torch.Tensor = model(input_ids=IDS).logits  # type: ignore[operator]
    return found


@pytest.mark.parametrize("architecture", FOLDABLE)
@pytest.mark.parametrize("recipe", [SCALED, route((0, 2), (0, 0)), route((0, 1, 3.0))], ids=["mixed", "plain", "one"])
@pytest.mark.parametrize(("epsilon", "near"), [(1e-12, 1e-4), (1e-6, 1e-3)], ids=["exact", "usual epsilon"])
def test_folded_scales_are_the_scales(architecture: str, recipe: object, epsilon: float, near: float) -> None:
    biased = {"attention_bias": True} if architecture in ("llama", "qwen3", "smollm3") else {}
    biased |= {"mlp_bias": True} if architecture in ("llama", "smollm3") else {}
    models, own = family(architecture, rms_norm_eps=epsilon, **biased), genome(recipe)
    model = shell(merged_config(own, models, "base"), "cpu")
    fill(model, build(own, models, "base").__getitem__)
    torch.testing.assert_close(logits(model), logits(routed_model(own, models, "base")), atol=near, rtol=near)


def test_a_route_of_recipes_stacks_what_they_give() -> None:
    models = family()
    mean = {"op": "linear", "inputs": ["a", "b"]}
    own = genome(route((0, 0, 0.5), (1, 1, 2.0), inputs=[mean, route((0, 1, 1.5), (1, 2, 0.7))]))
    model = shell(merged_config(own, models, "base"), "cpu")
    fill(model, build(own, models, "base").__getitem__)
    torch.testing.assert_close(logits(model), logits(routed_model(own, models, "base")), atol=1e-4, rtol=1e-4)


def test_the_scales_matter() -> None:
    models = family()
    plain, scaled = (genome(route((0, 0), (0, 1, scale), (0, 2))) for scale in (1.0, 2.0))
    one, two = (logits(routed_model(own, models, "base")) for own in (plain, scaled))
    assert (one - two).abs().max() > 0.01


def test_the_routed_model_decodes_with_its_cache() -> None:
    model = routed_model(genome(SCALED), family(), "base")
    found = model.generate(IDS, max_new_tokens=6, do_sample=False, eos_token_id=None)  # type: ignore[operator]
    plain = model.generate(  # type: ignore[operator]
        IDS, max_new_tokens=6, do_sample=False, eos_token_id=None, use_cache=False
    )
    assert torch.equal(found, plain)


def test_only_routes_flow() -> None:
    with pytest.raises(ConfigError, match="begin it with `op: layers`"):
        routed_model(genome("a"), family(), "base")


@pytest.mark.parametrize("architecture", ["gemma3_text", "olmo2"])
def test_scales_that_weights_cannot_say_are_refused(architecture: str) -> None:
    models = family(architecture)
    with pytest.raises(ConfigError, match="cannot be written into weights"):
        build(genome(SCALED), models, "base")
    build(genome(route((0, 1), (1, 0))), models, "base")
