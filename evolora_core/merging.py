"""The merge search from Python: what `evolora merge check`, `merge make`, `sql` and `export` do, as four functions.

    from evolora_core.merging import check, load, make, tables

Models are named as everywhere: a host of `evolora host list`, a hub id, a folder or a GGUF file. What was run is looked
for in EVOLORA_HOME (by default `.evolora/` in the working directory). Every function raises an EvoloraError whose one
line says what is wrong.
"""

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from evolora_core.engine.home import prepare_home

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from evolora_core.searches.merging.check import Report

__all__ = ["check", "load", "make", "tables"]

Model = str | os.PathLike[str]
VIEWS = (
    "merge_table",
    "merge_domains",
    "comparison",
    "merge_choice",
    "merge_parent",
    "merge_generation",
    "candidate",
    "candidate_domain",
    "candidate_lineage",
    "landscape",
    "landscape_mark",
    "regret",
    "law_fit",
    "law_point",
    "merge_law",
)


def check(models: Sequence[Model], base: Model | None = None) -> "Report":
    """Whether models can be merged, and how far they are from each other and from `base`, told from their headers and a
    sample of their weights. `mergeable` of the report says it, `reasons` why not, `rows` has the distances.
    """
    from evolora_core.errors import ConfigError
    from evolora_core.searches.merging.check import check_models

    if isinstance(models, str):
        raise ConfigError(f"models: give a list; a single one as [{models!r}]")
    prepare_home()
    return check_models([os.fspath(model) for model in models], None if base is None else os.fspath(base))


def make(recipe: Model | Mapping[str, Any], out: Model) -> Path:
    """Make the model of a recipe, which is a file of `evolora merge make` or what stands in one; returns `out`, an
    ordinary folder that AutoModelForCausalLM and AutoTokenizer load. It must not exist or be empty.
    """
    from evolora_core.searches.merging.recipe_file import load_recipe, parse_recipe

    file = parse_recipe(recipe) if isinstance(recipe, Mapping) else load_recipe(Path(recipe))
    prepare_home()
    from evolora_core.searches.merging.make import make_described

    make_described(file, Path(out))
    return Path(out)


def tables(suite: str) -> "dict[str, pd.DataFrame]":
    """What the store knows of a merge suite: each of `VIEWS` by its name. `suite` is a name (the latest of that name),
    an id or a file. A table that the suite has no rows for is empty.
    """
    from evolora_core.searches.suite_tables import suite_tables

    return suite_tables(suite, "merging", VIEWS)


def load(run: str, candidate: int | None = None) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    """Model (float32, on the CPU) and tokenizer of what a finished run, such as merge-quickstart.evomerge.s0, chose, or
    of any other candidate that it measured.
    """
    from evolora_core.errors import ConfigError
    from evolora_core.searches.registry import find_made, search_of

    home = prepare_home()
    made, settings = find_made(home, run)
    search = search_of(settings)
    if not search.exporter:
        raise ConfigError(f"{run}: a run of the search '{search.name}', which leaves no whole models")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from evolora_core.language.hosts.progress import bars_on_terminals_only, quiet

    with TemporaryDirectory(prefix="evolora-model-") as work, bars_on_terminals_only(), quiet():
        folder = Path(work) / "model"
        import_module(search.exporter).export(home, made, settings, candidate, folder)
        model = AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, trust_remote_code=False
        )
        return model, AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
