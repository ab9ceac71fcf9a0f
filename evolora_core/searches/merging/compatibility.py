"""Whether two models can be merged tensor by tensor."""

import logging
from collections.abc import Mapping
from typing import Any

from evolora_core.errors import ConfigError, HostError
from evolora_core.foreign.text import one_value
from evolora_core.searches.merging.agreement import first_difference, same, sized
from evolora_core.searches.merging.layer_lists import unlike_layer
from evolora_core.searches.merging.manners import manners_differ
from evolora_core.searches.merging.plain_config import COMPARED
from evolora_core.searches.merging.vocabularies import tokenizers_differ
from evolora_core.searches.merging.weights import Described, Weights, layers_in, model_path, open_loaded

log = logging.getLogger("evolora_core.stages")
ANOTHER = "take it out, or take the base that it came from"


def open_own(name: str, word: str, base: Described, host: str) -> Weights:
    """A model of a suite's `models`, by its name there. `host` is the word for the base. ConfigError where it is no
    whole model or the two cannot be merged; a chat template or EOS tokens of its own, which no merge will have, are
    warned about.
    """
    try:
        model = open_loaded(word)
    except HostError as error:
        raise ConfigError(f"models.{name}: {error}") from error
    if reason := misfit(base, model, host):
        mend = "" if ";" in reason else f"; {ANOTHER}"
        raise ConfigError(f"models.{name}: {word} cannot be merged: {reason}{mend}")
    paths = model_path(host), model_path(word)
    if reason := tokenizers_differ(*paths):
        raise ConfigError(f"models.{name}: {word} has another tokenizer than {host}: {reason}; {ANOTHER}")
    if told := manners_differ(*paths):
        log.warning(
            "models.%s: %s has %s than %s; every model is asked and kept with the base's", name, word, told, host
        )
    return model


def misfit(one: Described, other: Described, name: str = "the base") -> str:
    """Why two models cannot be merged tensor by tensor, in words; nothing where they can. `name` is that of the first
    one."""
    ours, theirs = one.config, other.config
    for key in COMPARED:
        if not same(ours.get(key), theirs.get(key)):
            return _told(key, ours, theirs, name)
    if (deep := layers_in(other.names)) != (own := layers_in(one.names)):
        return f"it has {deep} layers, {name} has {own}; only a route joins models of two depths"
    if unlike := unlike_layer(ours, theirs, own):
        key, mine, its = unlike
        return f"config.json: {key} is {one_value(its, 80)}, in {name} {one_value(mine, 80)}"
    shapes, others = ({each: model.shape(each) for each in model.names} for model in (one, other))
    if tensor := first_difference(shapes, others):
        return f"{tensor} is {sized(others.get(tensor))}, in {name} {sized(shapes.get(tensor))}"
    return ""


def _told(key: str, ours: Mapping[str, Any], theirs: Mapping[str, Any], name: str) -> str:
    here, there = (one_value(config.get(key), 80) for config in (theirs, ours))
    mend = "; resize its embeddings to that (resize_token_embeddings) and save it anew" if key == "vocab_size" else ""
    return f"config.json: {key} is {here}, in {name} {there}{mend}"
