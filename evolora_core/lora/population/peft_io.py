"""Adapters as PEFT folders, `adapter_config.json` and `adapter_model.safetensors`, read and written without PEFT."""

import json
import math
import shutil
import time
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from evolora_core.errors import AdapterError
from evolora_core.foreign.documents import read_json
from evolora_core.foreign.files import MIB, Unfit, check_regular, read_text
from evolora_core.foreign.patterns import compile_pattern, full_matches
from evolora_core.foreign.text import one_value
from evolora_core.language.hosts.host import Host
from evolora_core.language.hosts.layers import adapted_layers
from evolora_core.lora.population.adapter import Adapter

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
LONGEST_CONFIG = 4 * MIB
DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
LARGEST_NORM = 1e12  # of ΔW; that of a trained adapter is below 1000
LARGEST_RANK, SMALLEST_ALPHA, LARGEST_ALPHA = 4096, 1e-6, 1024 * 1000  # the largest rank and scale of settings
MOST_PATTERNS, LONGEST_PATTERN, PATTERN_SECONDS = 2000, 1000, 2.0
UNREADABLE = (
    "use_dora",
    "lora_bias",
    "modules_to_save",
    "layer_replication",
    "trainable_token_indices",
    "alora_invocation_tokens",  # it acts only behind these tokens
    "arrow_config",
    "use_bdlora",
    "use_qalora",
    "kasa_config",
)
# Those of `init_lora_weights` that leave the host's weights alone. The others (PiSSA, OLoRA, CorDA, LoftQ, LoRA-GA)
# change them and save only the factors, which belong to weights that are not the host's.
HARMLESS_STARTS = ("gaussian", "eva", "orthogonal", "mica")


def export_peft(adapter: Adapter, host: Host, folder: Path, base: str = "") -> None:
    """Write an adapter as a folder that `PeftModel.from_pretrained` loads; the same bytes for the same adapter. `base`
    is what it says that its model is loaded by: the host's name if not given.

    AdapterError: the adapter is empty (rank 0).
    """
    if adapter.rank < 1 or not adapter.A:
        raise AdapterError(
            f"{folder}: an adapter of rank 0 changes nothing and has no PEFT form; export another organelle"
        )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"{PREFIX}{name}.lora_A.weight": A for name, A in adapter.A.items()}
    tensors |= {f"{PREFIX}{name}.lora_B.weight": B for name, B in adapter.B.items()}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in sorted(tensors.items())}
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    alpha = adapter.scale * adapter.rank
    config = {
        "base_model_name_or_path": base or host.name,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "lora_alpha": int(alpha) if alpha == int(alpha) else alpha,
        "lora_dropout": 0.0,
        "peft_type": "LORA",
        "r": adapter.rank,
        "target_modules": _targets(adapter, host),
        "task_type": "CAUSAL_LM",
    }
    (folder / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    shutil.copymode(folder / CONFIG, folder / WEIGHTS)  # safetensors writes for its owner alone


def import_peft(folder: Path, host: Host) -> Adapter:
    """Read a PEFT LoRA folder for this host; ranks and alphas by module become one rank and scale with the same ΔW.

    AdapterError, one line: a file is missing or unreadable, it is no plain LoRA, a module is not the host's or has
    another shape.
    """
    folder = Path(folder)
    config = _read_config(folder)
    factors = _read_factors(folder)
    layers = adapted_layers(host.model)
    head = host.model.get_output_embeddings()
    heads = [name for name, module in host.model.named_modules() if module is head]
    own_host = f"use the adapter's own host, {one_value(config.get('base_model_name_or_path'))}"
    for name, (A, B) in factors.items():
        if name in heads:
            raise AdapterError(
                f"{folder / WEIGHTS}: module {name!r}: the head for words is not adapted here; train the adapter "
                "without it"
            )
        if name not in layers:
            raise AdapterError(
                f"{folder / WEIGHTS}: module {name!r}: host {host.name!r} has no such linear layer to adapt; {own_host}"
            )
        found, wanted = (B.shape[0], A.shape[1]), (layers[name].out_features, layers[name].in_features)
        if found != wanted:
            raise AdapterError(
                f"{folder / WEIGHTS}: module {name!r}: it is {found[0]} x {found[1]}, but the layer of host "
                f"{host.name!r} is {wanted[0]} x {wanted[1]} (out x in); {own_host}"
            )
    rank = max(len(A) for A, _ in factors.values())
    if rank > LARGEST_RANK or (not config.get("rank_pattern") and rank != config["r"]):
        raise AdapterError(
            f"{folder / CONFIG}: r: {int(config['r'])}, but the weights have rank {rank}; save the adapter anew"
        )
    scales = _scales(config, {name: len(A) for name, (A, _) in factors.items()}, folder / CONFIG)
    scale = _scale(config, config["lora_alpha"], int(config["r"]))
    device = host.model.device
    padded_A, padded_B = {}, {}
    for name, (A, B) in factors.items():
        padded_A[name] = torch.zeros(rank, A.shape[1], device=device)
        padded_B[name] = torch.zeros(B.shape[0], rank, device=device)
        padded_A[name][: len(A)] = A
        padded_B[name][:, : len(A)] = B.float() * (scales[name] / scale)
    adapter = Adapter(rank, scale, padded_A, padded_B)
    if not math.isfinite(adapter.norm()) or adapter.norm() > LARGEST_NORM:
        raise AdapterError(f"{folder}: its numbers are too large to compute with; save the adapter anew")
    return adapter


def base_named(folder: Path) -> str:
    """The model that a PEFT folder says its adapter was trained on; "" where it says nothing. AdapterError as above."""
    named = _read_config(folder).get("base_model_name_or_path")
    return named if isinstance(named, str) else ""


def _targets(adapter: Adapter, host: Host) -> list[str]:
    """Layer names such as `q_proj` where the adapter has all layers so called, else the modules' full names."""
    endings = sorted({name.rpartition(".")[2] for name in adapter.A})
    meant = {name for name, _ in host.model.named_modules() if name.rpartition(".")[2] in endings}
    return endings if meant == set(adapter.A) else sorted(adapter.A)


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    try:
        config: dict[str, Any] = read_json(read_text(path, LONGEST_CONFIG))
    except FileNotFoundError:
        raise AdapterError(f"{path}: missing; name a folder that PEFT's save_pretrained wrote") from None
    except (OSError, ValueError) as error:
        raise AdapterError(f"{path}: not readable as JSON ({error}); save the adapter anew") from None
    kind = config.get("peft_type") if isinstance(config, dict) else None
    if kind != "LORA":
        raise AdapterError(f"{path}: peft_type: {kind!r} is not supported; use a LORA adapter")
    for key in UNREADABLE:
        if config.get(key):
            raise AdapterError(f"{path}: {key}: not supported; use a plain LoRA adapter without it")
    start = config.get("init_lora_weights")
    if isinstance(start, str) and start.lower() not in HARMLESS_STARTS:
        raise AdapterError(
            f"{path}: init_lora_weights: {one_value(start)} is not known to leave the host's weights as they are; save "
            "it with PEFT's path_initial_model_for_weight_conversion, which makes a plain LoRA"
        )
    if not _is_number(config.get("r")) or config["r"] != int(config["r"]) or not 1 <= config["r"] <= LARGEST_RANK:
        raise AdapterError(
            f"{path}: r: {one_value(config.get('r'))} is not a rank from 1 to {LARGEST_RANK}; save the adapter anew"
        )
    if not _is_number(config.get("lora_alpha")) or not SMALLEST_ALPHA <= config["lora_alpha"] <= LARGEST_ALPHA:
        raise AdapterError(
            f"{path}: lora_alpha: {one_value(config.get('lora_alpha'))} is not a number from {SMALLEST_ALPHA} to "
            f"{LARGEST_ALPHA}; save the adapter anew"
        )
    for key in ("alpha_pattern", "rank_pattern"):
        given = config.get(key)
        if given is None:
            continue
        least, most = (0, LARGEST_ALPHA) if key == "alpha_pattern" else (1, LARGEST_RANK)
        fits = isinstance(given, dict) and len(given) <= MOST_PATTERNS
        if not fits or not all(_is_number(value) and least <= value <= most for value in given.values()):
            raise AdapterError(
                f"{path}: {key}: must map patterns, at most {MOST_PATTERNS}, to numbers from {least} to {most}; "
                "save the adapter anew"
            )
    return config


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _read_factors(folder: Path) -> dict[str, tuple[Tensor, Tensor]]:
    """Module name -> (A [r, in], B [out, r]), float32."""
    path = folder / WEIGHTS
    try:
        check_regular(path)
    except Unfit as error:
        raise AdapterError(f"{path}: {error}") from error
    if not path.is_file():
        pickled = (folder / "adapter_model.bin").is_file()
        state = "only adapter_model.bin, which is never unpickled" if pickled else "missing"
        raise AdapterError(f"{path}: {state}; save the adapter with safe_serialization=True")
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError, ValueError, KeyError, RuntimeError, OverflowError) as error:
        raise AdapterError(f"{path}: not readable ({' '.join(str(error).split())}); save the adapter anew") from None
    found: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        name, _, factor = key.removeprefix(PREFIX).removesuffix(".weight").rpartition(".")
        if not key.startswith(PREFIX) or factor not in ("lora_A", "lora_B") or tensor.ndim != 2:
            raise AdapterError(
                f"{path}: tensor {key!r} is no factor of a linear layer; use a plain LoRA adapter without it"
            )
        if tensor.dtype not in DTYPES:
            kind = str(tensor.dtype).removeprefix("torch.")
            raise AdapterError(
                f"{path}: tensor {key!r}: it is {kind}; save the adapter as float32, float16 or bfloat16"
            )
        if not bool(torch.isfinite(tensor).all()):
            raise AdapterError(f"{path}: tensor {key!r}: not all of its numbers are finite; save the adapter anew")
        found.setdefault(name, {})[factor] = tensor.float()
    if not found:
        raise AdapterError(f"{path}: it holds no tensors; save the adapter anew")
    factors = {}
    for name, pair in found.items():
        if len(pair) < 2 or not 0 < len(pair["lora_A"]) == pair["lora_B"].shape[1]:
            shapes = " and ".join(f"{factor} {tuple(tensor.shape)}" for factor, tensor in sorted(pair.items()))
            raise AdapterError(f"{path}: module {name!r}: {shapes} do not make a product; save the adapter anew")
        factors[name] = (pair["lora_A"], pair["lora_B"])
    return factors


def _scales(config: dict[str, Any], ranks: dict[str, int], path: Path) -> dict[str, float]:
    """Factor of ΔW of each module, given its rank. `alpha_pattern` has regular expressions of a name's end, as PEFT
    has it; they are anybody's, so they are compiled within bounds and stopped after PATTERN_SECONDS.
    """
    alphas = dict.fromkeys(ranks, config["lora_alpha"])
    names, left = list(ranks), time.monotonic() + PATTERN_SECONDS
    for pattern, alpha in reversed((config.get("alpha_pattern") or {}).items()):  # the first that fits decides
        try:
            machine = compile_pattern(rf"(.*\.)?({pattern})", longest=LONGEST_PATTERN)
            matched = full_matches(machine, names, left - time.monotonic())
        except Unfit as error:
            raise AdapterError(f"{path}: alpha_pattern: {one_value(pattern)}: {error}; name the modules") from error
        except TimeoutError as error:
            raise AdapterError(
                f"{path}: alpha_pattern: {one_value(pattern)}: takes too long to match; name the modules"
            ) from error
        alphas |= {name: alpha for name, fits in zip(names, matched, strict=True) if fits}
    return {name: _scale(config, alphas[name], rank) for name, rank in ranks.items()}


def _scale(config: dict[str, Any], alpha: float, rank: int) -> float:
    """alpha / r, or alpha / √r for rank-stabilised LoRA."""
    return float(alpha) / (rank**0.5 if config.get("use_rslora") else rank)
