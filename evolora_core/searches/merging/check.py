"""Whether models can be merged, told from headers and a sample of their weights. No model is loaded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from evolora_core.errors import ConfigError
from evolora_core.foreign.text import one_line
from evolora_core.searches.merging.compatibility import misfit
from evolora_core.searches.merging.distances import cosines, distances, sampled_products, steps
from evolora_core.searches.merging.manners import manners_differ
from evolora_core.searches.merging.plain_config import plain_config, settled
from evolora_core.searches.merging.vocabularies import find_vocabulary, tokenizers_differ
from evolora_core.searches.merging.weights import Described, FolderHeaders, layers_in, model_path, open_weights

FAR = 0.5  # relative distance. Fine-tuning moves a model by less; models that began apart are 1.4 apart


@dataclass(frozen=True)
class Report:
    """What was found.

    rows       a flat object for each model: what it is; with a base, which comes last, `drift` |τ| / |θ₀| and by
               `cosine to NAME` the cosine of its task vector with that of each model; else by `distance to NAME`
               |θᵢ − θⱼ| / |θᵢ|
    reasons    why they cannot be merged
    warnings   what makes a merge unlikely to be any good
    sampled    whether the distances and cosines are estimates, from every so many rows of each larger tensor
    """

    rows: list[dict[str, Any]]
    reasons: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    sampled: bool = False

    @property
    def mergeable(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.reasons


def check_models(words: Sequence[str], base: str | None = None) -> Report:
    """Compare models, and with `base` how far each is from it. Words are hosts, hub ids, folders or GGUF files.

    ConfigError or HostError, one line, for what is no model at all.
    """
    if len(words) + (base is not None) < 2:
        raise ConfigError("merge check: name two models or more, or one and its --base")
    named = list(words) if base is None else [base, *words]
    paths = [model_path(word) for word in named]
    models = _open(paths)
    rows = [_row(word, model) for word, model in zip(named, models, strict=True)]
    reasons = [
        f"{one_line(words_of, 100)}: {reason}"
        for words_of, model in zip(named[1:], models[1:], strict=True)
        if (reason := misfit(models[0], model, one_line(named[0], 100)))
    ]
    warnings = _compare_vocabularies(named, paths, reasons)
    if not reasons:
        warnings += [
            f"{one_line(word, 100)}: has {told} than {one_line(named[0], 100)}, whose template and EOS tokens a merged "
            "model gets; the recipe key `tokenizer` names another model"
            for word, path in zip(named[1:], paths[1:], strict=True)
            if (told := manners_differ(paths[0], path))
        ]
    if not reasons:
        warnings += _measure(rows, models, named, base is not None, reasons)
    sampled = not reasons and max(steps(models[0]).values(), default=1) > 1
    return Report(rows if base is None else rows[1:] + rows[:1], reasons, warnings, sampled)


def _open(paths: Sequence[Path]) -> Sequence[Described]:
    """The models. Where their files alone settle what they are, transformers, which takes seconds, is not imported."""
    configs: list[Mapping[str, Any]] = []

    def fill(raw: dict[str, Any]) -> Mapping[str, Any]:
        config = plain_config(raw)
        if config is None or (configs and not settled(configs[0], config)):
            raise _Unsettled
        configs.append(config)
        return config

    try:
        if all(path.is_dir() for path in paths):
            return [FolderHeaders(path, fill) for path in paths]
    except _Unsettled:
        pass
    return [open_weights(path) for path in paths]


class _Unsettled(Exception):
    """A configuration that transformers has to read."""


def _row(word: str, model: Described) -> dict[str, Any]:
    config = model.config
    return {
        "model": word,
        "architecture": (config.get("architectures") or [config.get("model_type")])[0],
        "layers": layers_in(model.names),
        "hidden": config.get("hidden_size"),
        "vocabulary": config.get("vocab_size"),
        "tied head": bool(config.get("tie_word_embeddings")),
        "parameters": sum(prod(model.shape(name)) for name in model.names),
    }


def _compare_vocabularies(named: Sequence[str], paths: Sequence[Path], reasons: list[str]) -> list[str]:
    """Adds to the reasons; returns warnings."""
    found = [find_vocabulary(path) for path in paths]
    known = [(word, own.path.parent) for word, own in zip(named, found, strict=True) if own]
    for word, own in known[1:]:
        if told := tokenizers_differ(known[0][1], own):
            reasons.append(f"{one_line(word, 100)}: another tokenizer than {one_line(known[0][0], 100)}: {told}")
    return [
        f"{one_line(word, 100)}: "
        + (
            "has no tokenizer, which is not compared"
            if path.is_dir()
            else "the tokenizer of a GGUF file is not compared"
        )
        for word, path, own in zip(named, paths, found, strict=True)
        if own is None
    ]


def _measure(
    rows: list[dict[str, Any]], models: Sequence[Described], named: Sequence[str], based: bool, reasons: list[str]
) -> list[str]:
    """Fills distances in, and with a base cosines; adds to the reasons, returns warnings. Row 0 is the base if there is
    one.
    """
    with np.errstate(invalid="ignore"):  # NaN is what is looked for
        products = sampled_products(models[0], models[1:])
    whole = np.isfinite(np.roll(products.diagonal(), 1))  # there the first model comes last
    if not whole.all():
        reasons.append(f"{one_line(named[int(whole.argmin())], 100)}: has NaN or infinity in its weights; take another")
        return []
    order = [len(models) - 1, *range(len(models) - 1)]
    apart = distances(products)[order][:, order]
    names = _short(named[1:] if based else named)
    if based:
        angles = cosines(products[:-1, :-1])
        for place, row in enumerate(rows):
            row["drift"] = float(apart[0, place])
            for column, name in enumerate(names):
                row[f"cosine to {name}"] = float(angles[place - 1, column]) if place else None
    else:
        for place, row in enumerate(rows):
            row |= {f"distance to {name}": float(apart[place, column]) for column, name in enumerate(names)}
    warnings = []
    for first, last in combinations(range(len(models)), 2):
        one, two = one_line(named[first], 100), one_line(named[last], 100)
        if float(apart[first, last]) > FAR and (first == 0 or not based):
            warnings.append(
                f"{two}: is {float(apart[first, last]):.2f} of the length of {one} away from it; the two probably have "
                "no common base, and a merge of them is noise"
            )
        elif not float(apart[first, last]):
            warnings.append(f"{two}: looks the same as {one}")
    return warnings


def _short(words: Sequence[str]) -> list[str]:
    """Words as heads of columns: of paths as many trailing parts as it takes to tell them apart."""
    parts = [Path(word).parts or (word,) for word in words]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(own[-depth:]) for own in parts]
        if len(set(names)) == len(set(words)):
            return names
    return list(words)
