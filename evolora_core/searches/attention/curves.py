"""What was measured of a program: the loss of every held-out text at sizes and training seeds. Kept as files."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from evolora_core.searches.attention.scaling.losses import Losses

Cell = tuple[str, int]  # size and training seed


@dataclass(frozen=True, eq=False)
class Curve:
    """The losses of one program.

    n        non-embedding parameters by size
    flops    operations of a training step by size
    texts    float32 `[texts]` nats by size and training seed
    seconds  of processor time by size and training seed
    refused  why a training counts as a model that knows nothing, by size and training seed
    """

    n: dict[str, int] = field(default_factory=dict)
    flops: dict[str, int] = field(default_factory=dict)
    texts: dict[Cell, np.ndarray] = field(default_factory=dict)
    seconds: dict[Cell, float] = field(default_factory=dict)
    refused: dict[Cell, str] = field(default_factory=dict)

    def mean(self, size: str, seed: int) -> float:
        """The mean loss at a size with a seed, nats."""
        return float(self.texts[size, seed].mean(dtype=np.float64))


def joined(curves: Iterable[Curve]) -> Curve:
    """All cells of several measurements of one program."""
    found = Curve()
    for curve in curves:
        found.n.update(curve.n)
        found.flops.update(curve.flops)
        found.texts.update(curve.texts)
        found.seconds.update(curve.seconds)
        found.refused.update(curve.refused)
    return found


def save_curve(curve: Curve, path: Path) -> None:
    """Write PATH.safetensors and PATH.json."""
    tensors = {f"{size}/{seed}": own.astype(np.float32) for (size, seed), own in curve.texts.items()}
    save_file(tensors, path.with_suffix(".safetensors"))
    facts = {"n": curve.n, "flops": curve.flops, "seconds": _named(curve.seconds), "refused": _named(curve.refused)}
    path.with_suffix(".json").write_text(json.dumps(facts), encoding="utf-8")


def load_curve(path: Path) -> Curve:
    """What `save_curve` left."""
    facts = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    # Tensors come in an order of their own, while tables are written in the order of measuring, which `seconds` has.
    texts = load_file(path.with_suffix(".safetensors"))
    seconds, refused = ({_cell(name): own for name, own in facts[key].items()} for key in ("seconds", "refused"))
    return Curve(facts["n"], facts["flops"], {_cell(name): texts[name] for name in facts["seconds"]}, seconds, refused)


def losses_of(
    curves: Mapping[str, Curve], sizes: Sequence[str], seeds: Sequence[int], *, with_texts: bool = False
) -> Losses:
    """Programs as arrays; NaN where one was not measured."""
    shape = (len(curves), len(sizes), len(seeds))
    n, values = np.full(shape[:2], np.nan), np.full(shape, np.nan)
    count = max((len(own) for curve in curves.values() for own in curve.texts.values()), default=0)
    texts = np.full((*shape, count), np.nan, dtype=np.float32) if with_texts else None
    for row, curve in enumerate(curves.values()):
        for place, size in enumerate(sizes):
            n[row, place] = curve.n.get(size, np.nan)
            for column, seed in enumerate(seeds):
                if (size, seed) in curve.texts:
                    values[row, place, column] = curve.mean(size, seed)
                    if texts is not None:
                        texts[row, place, column] = curve.texts[size, seed]
    return Losses(list(curves), list(sizes), list(seeds), n, values, texts)


def ratios(curve: Curve, baseline: Curve) -> dict[str, float]:
    """FLOPs of a training step as a multiple of the baseline's, by size."""
    return {size: own / baseline.flops[size] for size, own in curve.flops.items() if size in baseline.flops}


def _named(cells: Mapping[Cell, Any]) -> dict[str, Any]:
    return {f"{size}/{seed}": own for (size, seed), own in cells.items()}


def _cell(name: str) -> Cell:
    size, seed = name.split("/")
    return size, int(seed)
