"""Makes the model that a recipe file describes, as a folder, and writes the recipe for mergekit."""

import logging
from pathlib import Path

from evolora_core.errors import ConfigError, HostError
from evolora_core.foreign.text import one_line
from evolora_core.language.hosts.folder import has_tokenizer
from evolora_core.searches.merging.make import make_model
from evolora_core.searches.merging.manners import manners_differ
from evolora_core.searches.merging.mergekit_yaml import mergekit_yaml
from evolora_core.searches.merging.recipe_file import RecipeFile
from evolora_core.searches.merging.vocabularies import tokenizers_differ
from evolora_core.searches.merging.weights import model_path, open_weights

log = logging.getLogger(__name__)


def make_described(file: RecipeFile, out: Path, mergekit: Path | None = None) -> int:
    """Write the folder `out`, which must not exist or be empty; returns the number of the model's parameters. Models
    that are not on this machine are fetched.

    mergekit   also write the recipe as a YAML file for mergekit

    HostError or ConfigError, one line, for what is no model, models that do not fit, models of several tokenizers
    unless the file names the one to take, a full disk, and a recipe that mergekit cannot express.
    """
    paths = {name: model_path(word) for name, word in file.used.items()}
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
        words = {name: str(path) for name, path in paths.items()}
        mergekit.write_text(mergekit_yaml(file.genome, models, base, words, file.dtype, first), encoding="utf-8")
    return make_model(file.genome, models, base, out, paths[first], file.dtype, file.used, file.tokenizer)
