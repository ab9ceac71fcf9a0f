"""Weights of recipes: routes move layers and what the configuration says of them; merges fit or say why not."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tiny_merges import ARCHITECTURES, LAYERS, build, family, genome, route, tiny

from evolora_core.errors import ConfigError
from evolora_core.searches.merging.build import (
    layer_count,
    merge_flops,
    merged_config,
    merged_shapes,
    merged_tensor,
)
from evolora_core.searches.merging.layer_lists import routed_config
from evolora_core.searches.merging.models import fill, shell
from evolora_core.searches.merging.recipe import group_at
from evolora_core.searches.merging.weights import BEHIND, Loaded

MEAN = {"op": "linear", "inputs": ["a", "b"]}
DARE = {"op": "dare_linear", "inputs": ["a", "b"], "params": {"density": 0.5}}
FAMILY = family()

steps = st.lists(st.tuples(st.integers(0, 1), st.integers(0, LAYERS - 1)), min_size=1, max_size=7)


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, "gemma3_text", "smollm3"])
def test_the_route_of_all_layers_is_the_model(architecture: str) -> None:
    models = family(architecture)
    own = genome(route((0, 0), (0, 1), (0, 2), inputs=["a"]))
    found = build(own, models, "base")
    assert list(found) == list(models["a"].names)
    assert all(torch.equal(found[name], models["a"].get(name)) for name in found)
    assert merged_config(own, models, "base") == models["a"].config


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(steps, st.integers(0, 1))
def test_any_route_is_an_ordinary_model(taken: list[tuple[int, int]], rest: int) -> None:
    own = genome(route(*taken, rest=rest))
    found, config = build(own, FAMILY, "base"), merged_config(own, FAMILY, "base")
    assert layer_count(own.recipe, FAMILY) == len(taken) == config["num_hidden_layers"] == len(config["layer_types"])
    model = shell(config, "cpu")
    assert {name: tuple(one.shape) for name, one in model.named_parameters()} == merged_shapes(own, FAMILY, "base")
    fill(model, found.__getitem__)
    for place, (source, layer) in enumerate(taken):
        given_name = f"model.layers.{layer}.mlp.up_proj.weight"
        assert torch.equal(found[f"model.layers.{place}.mlp.up_proj.weight"], FAMILY["ab"[source]].get(given_name))
    assert torch.equal(found["model.embed_tokens.weight"], FAMILY["ab"[rest]].get("model.embed_tokens.weight"))


@settings(max_examples=25)
@given(st.permutations(range(LAYERS)))
def test_a_route_and_its_inverse_give_the_model(order: list[int]) -> None:
    inverse = [order.index(layer) for layer in range(LAYERS)]
    there = route(*[(0, layer) for layer in order], inputs=["a"])
    found = build(genome(route(*[(0, layer) for layer in inverse], inputs=[there])), FAMILY, "base")
    assert all(torch.equal(found[name], FAMILY["a"].get(name)) for name in FAMILY["a"].names)


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3", "smollm3", "gemma3_text"])
def test_lists_of_the_configuration_follow_the_route(architecture: str) -> None:
    types = ["full_attention", "sliding_attention", "full_attention"]
    changes: dict[str, Any] = {"layer_types": types, "sliding_window": 8, "use_sliding_window": True}
    changes |= {"no_rope_layers": [1, 0, 1]} if architecture == "smollm3" else {}
    models = family(architecture, **changes)
    config = merged_config(genome(route((0, 1), (0, 0), (0, 1), (0, 2), (0, 1))), models, "base")
    assert config["layer_types"] == [types[layer] for layer in (1, 0, 1, 2, 1)]
    assert config.get("no_rope_layers", [0, 1, 0, 1, 0]) == [0, 1, 0, 1, 0]
    shell(config, "cpu")


def test_lists_of_layer_numbers_follow_the_route() -> None:
    config = {"num_hidden_layers": 4, "mlp_only_layers": [0, 3], "decoder_sparse_step": 2, "first_k_dense_replace": 1}
    taken = [(config, layer) for layer in (0, 0, 1, 3, 2)]
    found = routed_config(config, taken)
    assert found == {
        "num_hidden_layers": 5,
        "mlp_only_layers": [0, 1, 3, 4],  # those without experts: layer 1 alone has them
        "decoder_sparse_step": 1,
        "first_k_dense_replace": 2,
    }
    with pytest.raises(ConfigError, match="keep their order"):
        routed_config(config, [(config, layer) for layer in (1, 0, 2, 3)])
    with pytest.raises(ConfigError, match="cannot change places"):
        routed_config(config | {"num_kv_shared_layers": 2}, taken)


def test_layers_that_compute_with_their_number_keep_it() -> None:
    """DiffLlama's weigh their two attentions by it."""
    models = family("diffllama", num_key_value_heads=2)
    fitting = genome(route((0, 0), (1, 1)))  # of two models, and without the last layer
    model = shell(merged_config(fitting, models, "base"), "cpu")
    fill(model, build(fitting, models, "base").__getitem__)
    numbers = [layer.self_attn.lambda_init for layer in model.model.layers]
    assert len(set(numbers)) == len(numbers) == 2
    for taken in (((0, 1), (0, 0)), ((0, 0), (0, 0)), ((0, 0), (1, 2))):
        with pytest.raises(ConfigError, match="diffllama compute with their own number and cannot change places"):
            merged_config(genome(route(*taken)), models, "base")


def test_lists_that_are_as_long_by_chance_stay() -> None:
    config = {"num_hidden_layers": 3, "eos_token_id": [2, 5, 7], "max_window_layers": 28}
    found = routed_config(config, [(config, 0), (config, 1)])
    assert found == {"num_hidden_layers": 2, "eos_token_id": [2, 5, 7], "max_window_layers": 28}


def test_groups_of_layers_have_their_values() -> None:
    own = genome({"op": "linear", "inputs": ["a", "b"], "params": {"weight": [[1.0, 0.0], [0.0, 1.0]]}})
    found = build(own, FAMILY, "base")
    for name in ("model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.weight"):
        assert torch.equal(found[name], FAMILY["a"].get(name))
    for name in ("model.layers.2.mlp.up_proj.weight", "model.norm.weight"):
        assert torch.equal(found[name], FAMILY["b"].get(name))


def test_a_value_for_each_layer_is_that_layer_s() -> None:
    for layers in range(1, 130):
        for groups in range(1, layers + 1):
            found = [group_at(layer / layers, groups) for layer in range(layers)]
            assert found == [layer * groups // layers for layer in range(layers)]
    assert group_at(BEHIND, 126) == 125


def test_an_unquoted_yes_is_understood() -> None:
    recipe = {"op": "ties", "inputs": ["a", "b"], "options": {"normalize": False}}
    assert genome(recipe).text == genome(recipe | {"options": {"normalize": "no"}}).text
    with pytest.raises(ValidationError, match="perhaps"):
        genome(recipe | {"options": {"normalize": "perhaps"}})


def test_the_depth_of_mpt_has_another_name() -> None:
    config = {"model_type": "mpt", "n_layers": 3}
    assert routed_config(config, [(config, 0), (config, 2)])["n_layers"] == 2


@settings(max_examples=15)
@given(st.integers(0, 2**63 - 1))
def test_masks_come_from_the_recipe_alone(seed: int) -> None:
    own, name = genome(DARE, seed), "model.layers.1.mlp.up_proj.weight"
    first = merged_tensor(own, name, FAMILY, "base")
    torch.rand(3)
    assert torch.equal(merged_tensor(own, name, FAMILY, "base"), first)
    assert not torch.equal(merged_tensor(genome(DARE, seed ^ 1), name, FAMILY, "base"), first)


def test_masks_differ_between_inputs_nodes_and_tensors() -> None:
    same = FAMILY | {"b": FAMILY["a"]}
    both = {"op": "dare_linear", "inputs": ["a", "b"], "params": {"density": 0.5}, "options": {"rescale": "none"}}
    name = "model.layers.1.mlp.up_proj.weight"
    tau = FAMILY["a"].get(name) - FAMILY["base"].get(name)
    kept = (build(genome(both), same, "base")[name] - FAMILY["base"].get(name)) / tau
    assert {0, 1, 2} == set(kept.round().int().flatten().tolist())
    single = both | {"inputs": ["a"]}
    found = build(genome({"op": "linear", "inputs": [single, single], "params": {"weight": [1.0, 0.0]}}), same, "base")
    other = build(genome({"op": "linear", "inputs": [single, single], "params": {"weight": [0.0, 1.0]}}), same, "base")
    assert not torch.equal(found[name], other[name])


def test_no_input_is_written_to() -> None:
    before = {name: {own: FAMILY[name].get(own).clone() for own in FAMILY[name].names} for name in FAMILY}
    for op in ("linear", "ties", "dare_ties", "della", "breadcrumbs", "sce", "model_stock", "slerp"):
        build(genome(route((0, 0), (1, 1), inputs=[{"op": op, "inputs": ["a", "b"]}, "c"])), FAMILY, "base")
    assert all(torch.equal(FAMILY[name].get(own), one) for name in before for own, one in before[name].items())


def test_costs_by_convention() -> None:
    size = sum(FAMILY["a"].get(name).numel() for name in FAMILY["a"].names)
    three = {"op": "ties", "inputs": ["a", MEAN, "c"]}
    found = [merge_flops(genome(recipe), FAMILY) for recipe in ("a", MEAN, three, route((0, 0), (0, 1)))]
    assert found == [0, 8 * size, 8 * size + 12 * size, 0]
    deep = route((0, 0), (0, 1), (0, 1), (0, 1), (0, 2))
    deeper = merge_flops(genome({"op": "linear", "inputs": [deep, deep]}), FAMILY)
    layer = sum(FAMILY["a"].get(name).numel() for name in FAMILY["a"].names if ".layers.1." in name)
    assert deeper == 8 * (size + 2 * layer)


DEEP = route((0, 0), (0, 1), (0, 1), (0, 2), inputs=["a"])


@pytest.mark.parametrize(
    ("recipe", "reason"),
    [
        ({"op": "linear", "inputs": ["a", DEEP]}, "'a' has 3 layers, the recipe of 'layers' 4"),
        ({"op": "ties", "inputs": [DEEP, DEEP]}, "missing in the base 'base'"),
        (route((0, 0), (1, 3)), "step 1: 'b' has 3 layers, so its last is 2, not 3"),
        ({"op": "linear", "inputs": ["a", "nope"]}, "model 'nope' is unknown; there are base, a, b, c"),
    ],
)
def test_what_does_not_fit_is_told(recipe: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as error:
        build(genome(recipe), FAMILY, "base")
    assert isinstance(error.value, ValueError) and "\n" not in str(error.value)


def test_a_base_must_be_declared_where_it_is_needed() -> None:
    build(genome(MEAN), FAMILY, "")
    with pytest.raises(ConfigError, match="declare one"):
        build(genome(DARE), FAMILY, "")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"hidden_size": 16}, "hidden_size is 32 in 'a' and 16 in 'b'"),
        ({"rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}}, "rope_parameters"),
        ({"vocab_size": 50}, r"embed_tokens.weight is \[48, 32\] in 'a' and \[50, 32\] in 'b'"),
        ({"tie_word_embeddings": False}, "lm_head.weight is missing in 'a'"),
    ],
)
def test_models_of_another_kind_are_refused(changes: dict[str, Any], reason: str) -> None:
    models = FAMILY | {"b": Loaded.of(tiny(**changes))}
    with pytest.raises(ConfigError, match=reason):
        merged_shapes(genome(MEAN), models, "base")


def test_layers_of_two_kinds_are_joined_by_a_route_and_never_merged() -> None:
    kinds: dict[str, Any] = {"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 0}
    full, sliding = "full_attention", "sliding_attention"
    models = {
        name: Loaded.of(tiny(**kinds, layer_types=types))
        for name, types in (("base", [full] * 3), ("a", [full] * 3), ("b", [full, sliding, full]))
    }
    merge: dict[str, Any] = {"op": "linear", "inputs": ["a", "b"]}
    with pytest.raises(ConfigError, match="layer_types.1 is 'full_attention' in 'a' and 'sliding_attention' in 'b'"):
        merged_shapes(genome(merge), models, "base")
    with pytest.raises(ConfigError, match="layer_types.1 is 'sliding_attention' in 'b' and 'full_attention' in 'base'"):
        merged_shapes(genome({"op": "task_arithmetic", "inputs": ["b"]}), models, "base")
    stacked = route((0, 0), (1, 1), (0, 2), (1, 1))
    assert merged_config(genome(stacked), models, "base")["layer_types"] == [full, sliding, full, sliding]
    fitting = {"op": "linear", "inputs": [route((0, 0), (1, 0), (0, 2)), "a"]}  # what is merged is of one kind again
    merged_shapes(genome(fitting), models, "base")


def test_another_architecture_is_refused() -> None:
    models = FAMILY | {"b": Loaded.of(tiny("llama"))}
    for recipe in (MEAN, route((0, 0), (1, 1))):
        with pytest.raises(ConfigError, match="model_type is 'qwen3' in 'a' and 'llama' in 'b'"):
            build(genome(recipe), models, "base")


def test_layers_come_in_order() -> None:
    names = [*merged_shapes(genome(route((1, 2), (0, 0), (0, 1))), FAMILY, "base")]
    places = [int(name.split(".")[2]) for name in names if ".layers." in name]
    assert all(one <= two for one, two in pairwise(places)) and names[-1] == FAMILY["a"].names[-1]
