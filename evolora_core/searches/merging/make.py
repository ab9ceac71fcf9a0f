"""Makes an ordinary model folder of a recipe or a recipe file, with memory for few tensors at a time.

The weights' bytes depend on the recipe and the models alone. The folder is written as NAME.partial and renamed last.
"""

import json
import logging
import math
import os
import shutil
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from evolora_core.errors import ConfigError, HostError
from evolora_core.foreign.text import error_line, one_line
from evolora_core.language.hosts.allocator import keep_freed_memory
from evolora_core.language.hosts.catalog import find_host
from evolora_core.language.hosts.folder import has_tokenizer, load_config
from evolora_core.searches.merging.build import merged_config, merged_shapes, merged_tensor
from evolora_core.searches.merging.manners import further_templates, manners_differ
from evolora_core.searches.merging.mergekit_yaml import mergekit_yaml
from evolora_core.searches.merging.misfits import Misfit
from evolora_core.searches.merging.paper import amiss
from evolora_core.searches.merging.recipe import Genome, Route, leaves, nodes
from evolora_core.searches.merging.recipe_file import RecipeFile
from evolora_core.searches.merging.streaming import DTYPES, size_of, write_tensors
from evolora_core.searches.merging.vocabularies import tokenizers_differ
from evolora_core.searches.merging.weights import Weights, model_path, open_weights

log = logging.getLogger(__name__)
WEIGHTS = "model.safetensors"
RECIPE = "recipe.json"  # a recipe file, as `evolora merge make` takes it
TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
)
ENDS = ("bos_token_id", "eos_token_id", "pad_token_id")  # settings of config.json that go with the tokenizer
SPARE = 2**26  # bytes that must be left on the disk, tokenizer files included
SMALL = 2**28  # bytes of a model that is loaded for real to see whether it is whole
VOLATILE = ("transformers_version", "_name_or_path")  # settings of config.json that no answer depends on


def make_described(file: RecipeFile, out: Path, mergekit: Path | None = None) -> int:
    """Write the folder `out`, which must not exist or be empty; returns the number of the model's parameters. Models
    that are not on this machine are fetched.

    mergekit   also write the recipe as a YAML file for mergekit

    HostError or ConfigError, one line, for what is no model, models that do not fit, models of several tokenizers
    unless the file names the one to take, a full disk, and a recipe that mergekit cannot express.
    """
    paths = {name: _found(name, word) for name, word in file.used.items()}
    first = file.tokenizer_name
    if paths[first].is_dir() and not has_tokenizer(paths[first]):
        raise HostError(
            f"models.{first}: {one_line(file.used[first], 100)} has no tokenizer.json for the merged model; save the "
            "tokenizer with save_pretrained, or name another model with the key `tokenizer`"
        )
    for name, path in paths.items():
        if file.tokenizer is None and (told := tokenizers_differ(paths[first], path)):
            raise ConfigError(
                f"models.{name}: {one_line(file.used[name], 100)} has another tokenizer than {first!r}: {told}; "
                "name the one to take with the key `tokenizer`, or leave the model out"
            )
        if file.tokenizer is None and (told := manners_differ(paths[first], path)):
            log.warning(
                "warning: models.%s: %s has %s than %r, whose template and EOS tokens the merged model gets; the key "
                "`tokenizer` of the recipe names another model",
                *(name, one_line(file.used[name], 100), told, first),
            )
    models = {name: open_weights(path, mapped=False) for name, path in paths.items()}
    base = file.base or ""
    if mergekit is not None:
        words = {name: str(path.absolute()) for name, path in paths.items()}  # elsewhere `code` is an id of the hub
        mergekit.write_text(mergekit_yaml(file.genome, models, base, words, file.dtype, first), encoding="utf-8")
    return make_model(file.genome, models, base, out, paths[first], file.dtype, file.used, file.tokenizer)


def make_model(
    genome: Genome,
    models: Mapping[str, Weights],
    base: str,
    out: Path,
    tokenizer_from: Path | None,
    dtype: str = "float32",
    sources: Mapping[str, str] | None = None,
    tokenizer: str | None = None,
) -> int:
    """Write the folder `out`, which must not exist or be empty; returns the number of the model's parameters.

    tokenizer_from   folder or GGUF file whose tokenizer is taken along, and what ends an answer
    sources          what the names of the models stand for; recipe.json says it
    tokenizer        name of the model of `tokenizer_from`, where the recipe says it; recipe.json does too

    ConfigError, one line, where the models do not fit, the disk has no room, or what came of it is no model.
    """
    if dtype not in DTYPES:
        raise ConfigError(f"dtype {dtype!r} is unknown; use one of {', '.join(DTYPES)}")
    named, out = out, out.resolve()  # `.` has no name
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"--out {named}: exists and is not an empty folder; name another")
    keep_freed_memory()  # each tensor takes about as much as the one before it
    shapes = merged_shapes(genome, models, base)
    ends, own_tokenizer = _ends(tokenizer_from) if tokenizer_from else ({}, None)
    config = _tidy(merged_config(genome, models, base) | ends, dtype)
    out.parent.mkdir(parents=True, exist_ok=True)
    _check_room(out, size_of(shapes, dtype))
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)  # what a killed one left
    partial.mkdir()
    try:
        _write_json(partial / "config.json", config)
        _write_json(partial / RECIPE, _recipe(genome, base, dtype, sources or {}, tokenizer))
        if own_tokenizer is not None:
            own_tokenizer.save_pretrained(partial)
        elif tokenizer_from is not None:
            _copy_tokenizer(tokenizer_from, partial)

        first = models[leaves(genome.recipe)[0]]
        names = {first.stored(name): name for name in shapes}

        def tensor(stored: str) -> Tensor:
            merged = merged_tensor(genome, names[stored], models, base)
            return _finite(names[stored], merged, dtype, lambda: _mend(genome, models, base, sources or {}))

        write_tensors(partial / WEIGHTS, {stored: shapes[name] for stored, name in names.items()}, tensor, dtype)
        if any(isinstance(node, Route) for node in nodes(genome.recipe)):
            _check_whole(partial, out, shapes)
        _put(partial, out)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return sum(map(prod, shapes.values()))


def _found(name: str, word: str) -> Path:
    """Where a model of a recipe file is. ConfigError, with its name there, for a word that stands for none."""
    try:
        return model_path(word)
    except HostError as error:
        raise ConfigError(f"models.{name}: {error}") from error


def _recipe(genome: Genome, base: str, dtype: str, sources: Mapping[str, str], tokenizer: str | None) -> dict[str, Any]:
    models = {name: _from_anywhere(word) for name, word in sources.items()}
    found = {"models": models, "recipe": json.loads(genome.text)["recipe"], "seed": genome.seed, "dtype": dtype}
    return found | ({"base": base} if base else {}) | ({"tokenizer": tokenizer} if tokenizer else {})


def _from_anywhere(word: str) -> str:
    """The word for a model, a path in full: it means the same in every working directory."""
    own = Path(word).expanduser()
    return str(own.resolve()) if find_host(word).path == own else word


def _tidy(config: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """config.json as transformers writes it: without its defaults. Misfit where it does not take it."""
    from transformers import AutoConfig

    own = {key: value for key, value in config.items() if key not in VOLATILE}
    try:
        found: dict[str, Any] = AutoConfig.for_model(**own).to_diff_dict()
    except Exception as error:  # what transformers raises depends on where it meets a setting that it cannot use
        raise Misfit(f"config.json of the merged model: {error_line(error)}; change the route") from error
    return {key: value for key, value in found.items() if key not in VOLATILE} | {"dtype": dtype}


def _check_room(out: Path, size: int) -> None:
    free = shutil.disk_usage(out.parent).free
    if size + SPARE > free:
        raise ConfigError(
            f"--out {out}: the merged model takes {size / 1e9:.2f} GB, and {free / 1e9:.2f} GB are free; make room or "
            "name another disk"
        )


def _finite(name: str, tensor: Tensor, dtype: str, mend: Callable[[], str]) -> Tensor:
    """The tensor in the dtype. Misfit where it has NaN or infinity, with the mend where it has some in float32 too."""
    found = tensor.to(getattr(torch, dtype))
    total = float(found.sum(dtype=torch.float32))  # finite only if all are, and many times as fast as asking each
    if not math.isfinite(total) and not bool(torch.isfinite(found).all()):
        told = mend() if not bool(torch.isfinite(tensor).all()) else "use bfloat16 or float32"
        raise Misfit(f"{name}: the merged weights have NaN or infinity in {dtype}; {told}")
    return found


def _mend(genome: Genome, models: Mapping[str, Weights], base: str, sources: Mapping[str, str]) -> str:
    """What to do about a merge with NaN or infinity: a model that has some itself cannot be merged by any recipe."""
    for name in dict.fromkeys([*leaves(genome.recipe), *([base] if base in models else [])]):
        if not all(bool(torch.isfinite(models[name].get(own)).all()) for own in models[name].names):
            called = f"model {name!r}" + (f" ({one_line(sources[name], 200)})" if name in sources else "")
            return f"{called} has some itself, take another"
    return "change the recipe"


def _ends(source: Path) -> tuple[dict[str, Any], Any]:
    """The settings of a model that go with its tokenizer; of a GGUF file, the tokenizer too."""
    if source.is_dir():
        config, tokenizer = load_config(source), None
    else:
        from evolora_core.language.hosts.gguf import load_gguf

        model, tokenizer = load_gguf(source, torch.float32)
        config = model.config
    found = config.to_dict()
    return {key: found[key] for key in ENDS if key in found}, tokenizer


def _copy_tokenizer(source: Path, folder: Path) -> None:
    """The files of a tokenizer, and which tokens end an answer."""
    for name in TOKENIZER:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
    for path in further_templates(source):
        (folder / path.parent.name).mkdir(exist_ok=True)
        shutil.copyfile(path, folder / path.parent.name / path.name)


def _check_whole(folder: Path, out: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Misfit unless transformers makes a model of the folder and finds all of its tensors: loaded for real if it is
    small, else by the names and sizes that the configuration asks for."""
    from transformers import AutoConfig, AutoModelForCausalLM

    from evolora_core.language.hosts.progress import bars_on_terminals_only, quiet

    try:
        with bars_on_terminals_only(), quiet():
            if (folder / WEIGHTS).stat().st_size <= SMALL:
                loaded: Any = AutoModelForCausalLM.from_pretrained(
                    folder, local_files_only=True, use_safetensors=True, output_loading_info=True
                )
                wrong = sorted(set(loaded[1]["missing_keys"]) | set(loaded[1]["unexpected_keys"]))
            else:
                wrong = amiss(AutoConfig.from_pretrained(folder, local_files_only=True), shapes)
    except Exception as error:
        raise Misfit(f"--out {out}: {error_line(error)}; change the route") from error
    if wrong:
        raise Misfit(f"--out {out}: {wrong[0]} is not as config.json asks for; change the route")


def _put(made: Path, out: Path) -> None:
    """Give a folder its name. One that is there stays, for somebody may work in it; config.json, with which a model is
    whole, comes last."""
    if not out.exists():
        os.replace(made, out)
        return
    for path in sorted(made.iterdir(), key=lambda path: path.name == "config.json"):
        os.replace(path, out / path.name)
    made.rmdir()


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
