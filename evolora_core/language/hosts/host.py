"""The frozen language model: loaded once, never changed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evolora_core.errors import DataError, HostError
from evolora_core.foreign.documents import check_text
from evolora_core.foreign.files import Unfit
from evolora_core.foreign.text import one_line
from evolora_core.language.hosts.allocator import keep_freed_memory
from evolora_core.language.hosts.arithmetic import AUTO, settled_dtype
from evolora_core.language.hosts.catalog import find_host
from evolora_core.language.hosts.fetch import fetch_host
from evolora_core.language.hosts.folder import check_tokenizer, load_folder, weight_files
from evolora_core.language.hosts.gguf import gguf_in, load_gguf
from evolora_core.language.hosts.identity import sha256_of_tokenizer, sha256_of_weights
from evolora_core.language.hosts.rehearsal import check_answers, check_context, check_ids, rehearse
from evolora_core.language.hosts.supported import check_counted, check_layers
from evolora_core.language.hosts.template import Example, PromptTemplate, ending_id, settle_chat_template

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DTYPES = ("float32", "bfloat16", "float16", AUTO)


@dataclass
class MemoryPlan:
    """What the machine's memory leaves for a host: the plan by which its work is cut.

    share       tokens of a pass, relative to what it usually takes
    rows        answers decoded together, at most
    paged       whether adapters and their optimizer's states lie in CPU memory, those in use alone on the device
    recompute   whether training keeps only what enters each layer, and computes the rest again on the way back
    """

    share: float = 1.0
    rows: int = 2**31
    paged: bool = False
    recompute: bool = False


@dataclass(frozen=True)
class Host:
    """A causal language model in evaluation mode, without gradients, and how to talk to it."""

    name: str
    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"
    template: PromptTemplate
    identity: dict[str, Any]  # name, weights_sha256, tokenizer_sha256, template_sha256, parameters, dtype, device
    device: str
    dtype: "torch.dtype"
    eos_ids: tuple[int, ...]  # any of them ends an answer
    pad_id: int
    max_context: int  # tokens of prompt and answer together
    _special: frozenset[int] = field(repr=False)
    memory_plan: MemoryPlan = field(default_factory=MemoryPlan, compare=False)

    def encode_prompts(
        self, prompts: Sequence[str], examples: Sequence[Sequence[Example]] | None = None
    ) -> list[list[int]]:
        """Token ids of each prompt in the model's template, up to where the answer begins; `examples[i]`, if there are
        any, are shown before prompt i.
        """
        for prompt in prompts:
            if not prompt.isascii():
                _check_text(prompt)
        return self._known(self.template.encode_prompts(prompts, examples))

    def encode_answers(self, answers: list[str]) -> list[list[int]]:
        """Token ids of each answer, the ending id appended: what training targets look like."""
        return self._known(self.template.encode_answers(answers))

    def _known(self, rows: list[list[int]]) -> list[list[int]]:
        """The rows. HostError where one is empty or has a token that the model has no embedding of."""
        if not all(rows):
            raise HostError(f"host {self.name!r}: its template makes nothing of a prompt; mend the template")
        embeddings: Any = self.model.get_input_embeddings()
        if rows and max(map(max, rows)) >= embeddings.num_embeddings:
            raise HostError(f"host {self.name!r}: its tokenizer has more tokens than the model; save both anew")
        return rows

    def decode(self, ids: list[int]) -> str:
        """The text of an answer's ids; special tokens are dropped, white space is kept."""
        kept = [token for token in ids if token not in self._special]
        text: str = self.tokenizer.decode(kept, clean_up_tokenization_spaces=False)  # type: ignore[assignment]
        return text


def _check_text(prompt: str) -> None:
    try:
        check_text(prompt)
    except Unfit as error:
        raise DataError(f"prompt {one_line(prompt, 40)!r}: {error}; write whole characters") from error


def load_host(name_or_path: str, *, device: str = "cpu", dtype: str = "float32") -> Host:
    """Load a host by described name, hub id, folder (safetensors or GGUF) or GGUF file; fetches what is not here yet.

    HostError, one line that names the folder, the file and the mend: no such host, no weights, no tokenizer, no causal
    language model, no linear layers, others whose FLOPs are not counted, an unknown device or dtype.
    """
    import torch

    from evolora_core.language.hosts.norms import quicken_norms

    if dtype not in DTYPES:
        raise HostError(f"host {name_or_path!r}: dtype {dtype!r} is unknown; use one of {', '.join(DTYPES)}")
    check_device(name_or_path, device)
    if device == "cpu":
        keep_freed_memory()
    place = find_host(name_or_path)
    path = place.path if place.ready else fetch_host(name_or_path)
    kind = getattr(torch, settled_dtype(dtype, device))
    gguf = gguf_in(path)
    if place.foreign:
        if gguf is None:
            weight_files(path)
            check_tokenizer(path)
        rehearse(path)
    if gguf is not None:
        model, tokenizer = load_gguf(gguf, kind)
        weights = [gguf]
    else:
        model, tokenizer, weights = load_folder(path, kind)
    check_layers(path, model)
    check_counted(place.name, model)
    model = model.eval().requires_grad_(False).to(torch.device(device))
    quicken_norms(model)
    host = _assemble(place.name, model, tokenizer, place.plain, weights, device, kind)
    if place.foreign:
        check_answers(place.name, model, host.encode_prompts(["1 + 1"])[0])
    return host


def _assemble(name: str, model: Any, tokenizer: Any, plain: Any, weights: list[Path], device: str, dtype: Any) -> Host:
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        raise HostError(f"host {name!r}: its tokenizer is not a fast one; save it with a tokenizer.json")
    # Prompts that are too long are refused by number or line: no warning has to come before that.
    tokenizer.deprecation_warnings["sequence-length-is-longer-than-the-specified-maximum"] = True
    ends = _eos_ids(model, tokenizer)
    if not ends:
        raise HostError(
            f"host {name!r}: neither generation_config.json nor the tokenizer names an EOS token; add eos_token"
        )
    vocabulary = model.get_input_embeddings().num_embeddings
    check_ids(name, ends, vocabulary)
    if (tokenizer.pad_token_id or 0) >= vocabulary:  # added to a tokenizer whose model was never resized
        tokenizer.pad_token = None
    pad = tokenizer.pad_token_id
    known_ends = tuple(dict.fromkeys(ends))
    if not plain.chat:
        tokenizer.chat_template = None
    settle_chat_template(repr(name), tokenizer)
    end = ending_id(tokenizer, known_ends)
    eos_ids = tuple(dict.fromkeys([*known_ends, end]))
    template = PromptTemplate(tokenizer, plain, end)
    identity = {
        "name": name,
        "weights_sha256": sha256_of_weights(weights),
        "tokenizer_sha256": sha256_of_tokenizer(tokenizer),
        "template_sha256": template.sha256,
        "parameters": model.num_parameters(),
        "dtype": str(dtype).removeprefix("torch."),
        "device": device,
    }
    return Host(
        name=name,
        model=model,
        tokenizer=tokenizer,
        template=template,
        identity=identity,
        device=device,
        dtype=dtype,
        eos_ids=eos_ids,
        pad_id=pad if pad is not None else end,
        max_context=check_context(name, _context(model.config.get_text_config())),
        _special=frozenset({*tokenizer.all_special_ids, *eos_ids}),
    )


def _context(config: Any) -> Any:
    """The context that a configuration tells, unchecked. `longrope` rotates a batch by its longest row: rows stand
    alone up to the original context only.
    """
    longest, rope = getattr(config, "max_position_embeddings", None), getattr(config, "rope_parameters", None) or {}
    kinds = [own for own in rope.values() if isinstance(own, dict)] or [rope]
    original = [own.get("original_max_position_embeddings") for own in kinds if own.get("rope_type") == "longrope"]
    known = [tokens for tokens in original if isinstance(tokens, int)]
    return min([longest, *known]) if isinstance(longest, int) else longest


def _eos_ids(model: Any, tokenizer: Any) -> list[Any]:
    """All ids that end an answer, unchecked: the generation config's (one or several) and the tokenizer's."""
    named = model.generation_config.eos_token_id if model.generation_config is not None else None
    ids = list(named) if isinstance(named, list | tuple) else [named]
    return [token for token in [*ids, tokenizer.eos_token_id] if token is not None]


def check_device(name: str, device: str) -> None:
    """Raise HostError if torch cannot compute on `device`, on which the host `name` was to be."""
    import torch

    try:
        kind = torch.device(device).type
    except RuntimeError:
        kind = ""
    if kind not in ("cpu", "cuda") or (kind == "cpu" and device != "cpu"):  # `meta` holds no numbers
        raise HostError(f"host {name!r}: device {device!r} is unknown; use cpu, cuda or cuda:0")
    if kind == "cuda" and not torch.cuda.is_available():
        raise HostError(f"host {name!r}: device {device!r}: no CUDA device is in reach; use device cpu")
    if kind == "cuda" and (torch.device(device).index or 0) >= torch.cuda.device_count():
        last = torch.cuda.device_count() - 1
        raise HostError(f"host {name!r}: device {device!r} is not there; the last is cuda:{last}")
