"""A host that somebody else made is tried before it is loaded: its files, its sizes, its tokenizer and its template.

The trial runs in a process that can be ended: a configuration may ask for a billion layers, a template may loop.
"""

import math
from pathlib import Path
from typing import Any

from evolora_core.errors import HostError
from evolora_core.foreign.documents import read_json
from evolora_core.foreign.files import MIB, Unfit, check_regular, read_text
from evolora_core.foreign.guard import guarded
from evolora_core.foreign.text import error_line, one_line, one_value
from evolora_core.language.hosts.gguf import gguf_in, load_gguf_tokenizer

SECONDS, MEMORY = 15.0, 1536 * MIB  # of a processor; beside this process
GGUF_SECONDS = 60.0  # whose tokenizers are put together anew
LONGEST_CONTEXT = 2**24  # tokens
LARGEST_NUMBER = 2**40  # in a configuration; the largest that is used there counts parameters
MOST_LAYERS = 2000
PROMPTS = ["1", "What is 2 + 3?", "Sort the letters: b a c\n" * 20]
_TEXTS = ("config.json", "generation_config.json", "tokenizer_config.json", "special_tokens_map.json")
# What transformers, jinja2 and tokenizers raise for what they cannot use: it depends on where they meet it.
Trouble = Exception


def rehearse(place: Path) -> None:
    """Raise HostError unless a folder holds a causal language model of the sizes that its weights have, and a tokenizer
    whose template renders; or, of a GGUF file, or a folder with one, unless that holds for its tokenizer.
    """
    gguf = gguf_in(place)
    if gguf is None:
        _check_files(place)
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer  # noqa: F401  # once, not in each copy

    def work(begin: Any) -> str:
        begin()
        if gguf is None:
            _try(place)
        else:
            _render(str(gguf), load_gguf_tokenizer(gguf))
        return ""

    try:
        guarded(work, seconds=SECONDS if gguf is None else GGUF_SECONDS, memory=MEMORY, processor=True)
    except Unfit as error:
        raise HostError(f"host {place}: trying its configuration and template {error}; name another model") from error


def _check_files(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        try:
            check_regular(path)
            if path.name in _TEXTS:
                document = read_json(read_text(path, 4 * MIB))
                if not isinstance(document, dict):
                    raise Unfit("is no JSON object")
                _check_numbers(document)
            elif path.name == "tokenizer.json":
                read_json(read_text(path, 256 * MIB), constants=True)
            elif path.suffix == ".jinja":
                read_text(path, MIB)
        except (OSError, ValueError) as error:
            raise HostError(f"host {folder}: {path.name}: {one_line(error, 200)}; save the host anew") from error


def _check_numbers(document: dict[str, Any]) -> None:
    """Sizes are positive and not astronomical."""
    waiting: list[tuple[str, Any]] = list(document.items())
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(key, inner) for inner in value]
        elif isinstance(value, int | float) and not isinstance(value, bool):
            size = key.startswith("num_") or key.endswith(("_size", "_dim", "max_position_embeddings"))
            most = MOST_LAYERS if "layers" in key else LARGEST_NUMBER
            if abs(value) > 1e31 or (isinstance(value, int) and size and not 0 <= value <= most):
                raise Unfit(f"{key}: {one_value(value, 40)} is no such number")


def _try(folder: Path) -> None:
    """What load_host will do, without the weights: sizes, tokenizer, template."""
    import torch
    from safetensors import safe_open
    from transformers import AutoModelForCausalLM

    from evolora_core.language.hosts.folder import load_config, load_tokenizer, weight_files

    config = load_config(folder)
    held = 0
    for file in weight_files(folder):
        try:
            with safe_open(file, framework="pt") as tensors:
                for name in tensors.keys():  # noqa: SIM118  # it is no mapping
                    held += math.prod(tensors.get_slice(name).get_shape())
        except Trouble as error:
            raise HostError(f"host {folder}: {file.name}: {one_line(error, 160)}; save the weights anew") from error
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    except Trouble as error:
        raise HostError(f"host {folder}: config.json: {error_line(error)}; save the model anew") from error
    asked = sum(parameter.numel() for parameter in model.parameters())
    if asked > 1.5 * held + 10_000:
        if getattr(config, "quantization_config", None):
            raise HostError(
                f"host {folder}: config.json: quantization_config: its weights are packed, {held} for {asked} "
                "parameters; save the model dequantised, without quantization_config"
            )
        raise HostError(
            f"host {folder}: config.json asks for {asked} parameters, the weights have {held}; save the model anew"
        )
    _render(str(folder), load_tokenizer(folder))


def _render(name: str, tokenizer: Any) -> None:
    """Raise HostError unless the tokenizer reads prompts, in its template if it has one."""
    from evolora_core.language.hosts.template import settle_chat_template

    settle_chat_template(name, tokenizer)
    try:
        for prompt in PROMPTS:
            chat = [{"role": "user", "content": prompt}]
            if tokenizer.chat_template:
                tokenizer.apply_chat_template(chat, add_generation_prompt=True, enable_thinking=False)
                answered = [*chat, {"role": "assistant", "content": "2"}]
                tokenizer.apply_chat_template(answered)
            tokenizer(prompt)
    except Trouble as error:
        raise HostError(f"host {name}: its chat template: {error_line(error)}; mend chat_template.jinja") from error


def check_context(name: str, context: Any) -> int:
    """The context of a host as a number of tokens. HostError where it is none."""
    if context is None:  # what MPT and BLOOM call otherwise
        raise HostError(
            f"host {name!r}: config.json: max_position_embeddings is missing; set it to the most tokens of prompt and "
            "answer together that the model was trained for"
        )
    if isinstance(context, bool) or not isinstance(context, int) or not 1 <= context <= LONGEST_CONTEXT:
        raise HostError(
            f"host {name!r}: config.json: max_position_embeddings: {one_value(context, 40)} is no context from 1 "
            f"to {LONGEST_CONTEXT} tokens; save the model anew"
        )
    return context


def check_ids(name: str, ids: list[Any], vocabulary: int) -> None:
    """Raise HostError unless these token ids, which end answers, are in the model's vocabulary."""
    for token in ids:
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocabulary:
            raise HostError(
                f"host {name!r}: token id {one_value(token, 40)} is not among the {vocabulary} of the model; "
                "correct eos_token_id in generation_config.json, and eos_token in tokenizer_config.json"
            )


def check_answers(name: str, model: Any, ids: list[int]) -> None:
    """Raise HostError unless the model reads a prompt and gives finite numbers."""
    import torch

    try:
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([ids], device=model.device)).logits
    except Trouble as error:
        raise HostError(f"host {name!r}: it cannot read a prompt ({error_line(error)}); save the model anew") from error
    if not bool(torch.isfinite(logits).all()):
        raise HostError(f"host {name!r}: its weights give NaN or infinity; fetch or save the weights anew")
