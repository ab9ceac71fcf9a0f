"""What `flows.bench.merge_disk` runs, each in a process of its own. It prints one JSON object, as its last line.

prepare FOLDER SETTINGS      writes models and recipes into FOLDER; says how many weights and models there are
ours FOLDER RECIPE THREADS       merges from folders to a folder as `evolora merge make` does; says the seconds
mergekit FOLDER RECIPE THREADS   the same by mergekit

Both merge small models first, which imports and warms up what they need, and is not timed.
"""

import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

SMALL = {"hidden": 24, "layers": 1, "vocabulary": 64}  # of the models that warm up


def prepare(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Recipes of each operator over the named folders, the base first, or over models that are made for it."""
    from evolora_core.searches.merging.weights import model_path, open_weights
    from flows.bench.merge import RECIPES

    made: list[Sequence[str]] = []
    for name, shape in (("small", SMALL), ("large", settings)):
        folders = settings["folders"] if name == "large" else []
        words = folders or _save_models(folder / name, shape, settings["models"], settings["dtype"])
        made.append([str(model_path(word)) for word in words])
        for operator in settings["only"] or RECIPES:
            _save_recipes(folder / name, operator, made[-1], settings["dtype"])
    base = open_weights(Path(made[-1][0]))
    weights = sum(prod(base.shape(name)) for name in base.names)
    return {"weights": weights, "models": len(made[-1]) - 1, "operators": list(settings["only"] or RECIPES)}


def _save_models(folder: Path, shape: Mapping[str, Any], models: int, dtype: str) -> list[str]:
    """A base of random weights and models a little away from it, of the shape of SmolLM2; one tensor is in memory."""
    import torch

    from evolora_core.language.hosts.catalog import find_host
    from evolora_core.searches.merging.make import TOKENIZER, WEIGHTS
    from evolora_core.searches.merging.streaming import write_tensors
    from flows.bench.merge import SPREAD, STEP, config, shapes

    size = {name: shape[name] for name in ("hidden", "layers", "vocabulary")}
    tensors = shapes(**size)
    words = find_host("nano-merge").path
    kept = [file for name in TOKENIZER if (file := words / name).is_file()]

    def drawn(name: str, number: int) -> torch.Tensor:
        place = sorted(tensors).index(name)
        stream = torch.Generator().manual_seed(place)
        found = SPREAD * torch.randn(tensors[name], generator=stream)
        if number:
            stream.manual_seed(number * len(tensors) + place)
            found += STEP * torch.randn(tensors[name], generator=stream)
        return found

    for number in range(models + 1):
        own = folder / f"model-{number}"
        own.mkdir(parents=True)
        (own / "config.json").write_text(json.dumps(config(**size) | {"dtype": dtype}), encoding="utf-8")
        for file in kept:
            shutil.copyfile(file, own / file.name)
        write_tensors(own / WEIGHTS, tensors, lambda name, number=number: drawn(name, number), dtype)  # type: ignore[misc]
    return [str(folder / f"model-{number}") for number in range(models + 1)]


def _save_recipes(folder: Path, operator: str, paths: Sequence[str], dtype: str) -> None:
    """A recipe in our language and in mergekit's."""
    from evolora_core.searches.merging.mergekit_yaml import mergekit_yaml
    from evolora_core.searches.merging.operators.registry import get_operator
    from evolora_core.searches.merging.recipe_file import load_recipe
    from evolora_core.searches.merging.weights import open_model
    from flows.bench.merge import RECIPES

    folder.mkdir(parents=True, exist_ok=True)
    kind = get_operator(operator)
    words = {f"m{number}": path for number, path in enumerate(paths)}
    node: dict[str, Any] = {"op": operator, "inputs": list(words)[1:], "params": dict(RECIPES[operator])}
    if "rescale" in kind.options:
        node["options"] = {"rescale": "l1"}  # as mergekit does
    document = {"models": words, "base": "m0", "recipe": node, "dtype": dtype}
    path = folder / f"{operator}.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    file = load_recipe(path)
    models = {name: open_model(word) for name, word in words.items()}
    text = mergekit_yaml(file.genome, models, file.base or "", words, dtype)
    path.with_suffix(".yaml").write_text(text, encoding="utf-8")


def ours(recipe: Path, out: Path) -> None:
    """What `evolora merge make` does."""
    from flows.cli.merge import make

    make(recipe.with_suffix(".json"), out=out)


def mergekits(recipe: Path, out: Path) -> None:
    """What `mergekit-yaml` does, without its model card."""
    import yaml
    from mergekit.config import MergeConfiguration
    from mergekit.merge import run_merge
    from mergekit.options import MergeOptions

    config = MergeConfiguration.model_validate(yaml.safe_load(recipe.with_suffix(".yaml").read_text(encoding="utf-8")))
    run_merge(config, str(out), MergeOptions(quiet=True, write_model_card=False, random_seed=0))


WAYS: Mapping[str, Callable[[Path, Path], None]] = {"ours": ours, "mergekit": mergekits}


def merge(way: str, folder: Path, operator: str, threads: int) -> dict[str, float]:
    """Seconds of one merge of the large models, after one of the small ones. `threads` 0 leaves torch's own number."""
    import torch

    if threads:
        torch.set_num_threads(threads)
    seconds = 0.0
    for name in ("small", "large"):
        out = folder / f"out-{name}"
        started = time.perf_counter()
        WAYS[way](folder / name / operator, out)
        seconds = time.perf_counter() - started
        shutil.rmtree(out)
    return {"seconds": seconds, "threads": torch.get_num_threads()}


def main(command: str, folder: str, *words: str) -> None:
    """Do what the command line says."""
    if command == "prepare":
        print(json.dumps(prepare(Path(folder), json.loads(words[0]))))
    else:
        print(json.dumps(merge(command, Path(folder), words[0], int(words[1]))))


if __name__ == "__main__":
    main(*sys.argv[1:])
