"""Tiny models that can be merged: a base and models that came from it, in memory and as folders."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from tiny_models import COMMON, VOCABULARY
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from evolora_core.language.hosts.host import Host, load_host
from evolora_core.language.hosts.tokenizer import VOCABULARY as VOCABULARY_OF_HOSTS
from evolora_core.language.hosts.tokenizer import build_tokenizer
from evolora_core.searches.merging.build import merged_shapes, merged_tensor
from evolora_core.searches.merging.recipe import Genome
from evolora_core.searches.merging.weights import Loaded, Weights

ARCHITECTURES = ("qwen3", "qwen2", "llama")
LAYERS = 3


def tiny(architecture: str = "qwen3", seed: int = 0, **changes: Any) -> PreTrainedModel:
    """A random model of 3 layers; `changes` are of its config."""
    options = COMMON | {"num_hidden_layers": LAYERS, "head_dim": 8, "tie_word_embeddings": True} | changes
    if architecture == "qwen2":
        options.pop("head_dim")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: Any = AutoModelForCausalLM.from_config(AutoConfig.for_model(architecture, **options))
        for own in model.parameters():  # norms and biases start as ones and zeros, which would hide faults
            if own.dim() == 1:
                own.data += 0.2 * torch.randn_like(own)
    return cast(PreTrainedModel, model.eval().requires_grad_(False))


def moved(model: PreTrainedModel, seed: int, size: float = 0.1) -> PreTrainedModel:
    """The model, moved in place at random by a share of its own size."""
    stream = torch.Generator().manual_seed(seed)
    for own in model.parameters():
        own.data += size * own.std().nan_to_num() * torch.randn(own.shape, generator=stream)
    return model


def family(architecture: str = "qwen3", **changes: Any) -> dict[str, Weights]:
    """`base`, and `a`, `b` and `c`, each a little away from it."""
    found: dict[str, Weights] = {"base": Loaded.of(tiny(architecture, **changes))}
    for seed, name in enumerate("abc", 1):
        found[name] = Loaded.of(moved(tiny(architecture, **changes), seed))
    return found


def build(genome: Genome, models: Mapping[str, Weights], base: str) -> dict[str, Tensor]:
    """Every tensor of the merged model by name."""
    return {name: merged_tensor(genome, name, models, base) for name in merged_shapes(genome, models, base)}


def tokens(words: int = VOCABULARY) -> Tokenizer:
    """A tokenizer of so many words."""
    names = {"<pad>": 0, "<s>": 1, "</s>": 2} | {f"w{number}": number for number in range(3, words)}
    tokenizer = Tokenizer(WordLevel(names, unk_token="<pad>"))
    tokenizer.pre_tokenizer = Whitespace()  # type: ignore[assignment]
    return tokenizer


def saved(model: PreTrainedModel, folder: Path, words: int = VOCABULARY, **how: Any) -> Path:
    """The model as a folder with a tokenizer."""
    from transformers import PreTrainedTokenizerFast

    model.save_pretrained(folder, **how)
    PreTrainedTokenizerFast(
        tokenizer_object=tokens(words), pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    ).save_pretrained(folder)
    return folder


def character_host(folder: Path, architecture: str, **changes: Any) -> Host:
    """A random base with the tokenizer of our own hosts, which items can be asked of; `changes` are of its config."""
    ends = {"pad_token_id": VOCABULARY_OF_HOSTS.index("<|pad|>"), "eos_token_id": VOCABULARY_OF_HOSTS.index("<|end|>")}
    tiny(architecture, vocab_size=len(VOCABULARY_OF_HOSTS), **ends, **changes).save_pretrained(folder)
    build_tokenizer(256).save_pretrained(folder)
    return load_host(str(folder))


def family_folders(folder: Path, architecture: str = "qwen3", **changes: Any) -> dict[str, str]:
    """The same family as folders; names to paths."""
    found = {"base": saved(tiny(architecture, **changes), folder / "base")}
    for seed, name in enumerate("abc", 1):
        found[name] = saved(moved(tiny(architecture, **changes), seed), folder / name)
    return {name: str(path) for name, path in found.items()}


def genome(recipe: Any, seed: int = 0) -> Genome:
    """A genome of a recipe as plain data."""
    return Genome(recipe=recipe, seed=seed)


def route(*steps: tuple[int, int] | tuple[int, int, float], inputs: list[Any] | None = None, rest: int = 0) -> Any:
    """A route as plain data."""
    told = [{"input": one[0], "layer": one[1], "scale": one[2] if len(one) == 3 else 1.0} for one in steps]
    return {"op": "layers", "inputs": inputs or ["a", "b"], "route": told, "rest": rest}
