"""`evolora merge …`."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from evolora_core.engine.home import prepare_home
from evolora_core.errors import ConfigError
from evolora_core.foreign.text import printable
from flows.cli._app import Json, show


def register(app: App) -> None:
    """Add the commands."""
    merge = App(name="merge", help="Merge language models by recipe.", help_epilogue="")
    app.command(merge)
    merge.command(check, help_epilogue="Example: `evolora merge check my-code my-math --base smollm2-135m`")
    merge.command(make, help_epilogue="Example: `evolora merge make recipe.yaml --out my-model`")


def check(
    *models: Annotated[str, Parameter(help="Hosts of `evolora host list`, hub ids, folders or GGUF files.")],
    base: Annotated[str | None, Parameter(help="The model that they were all fine-tuned from.")] = None,
    json: Json = False,
) -> None:
    """Say whether models can be merged, and how far they are from each other, without loading them. Ends with 1 and
    the reason where they cannot.
    """
    prepare_home()
    from evolora_core.searches.merging.check import check_models

    report = check_models(models, base)
    show(report.rows, json)
    if report.mergeable and not json:
        print("these models can be merged")
    if report.sampled:
        print("note: distances and cosines are estimates, from a sample of the weights", file=sys.stderr)
    for warning in report.warnings:
        print(f"warning: {printable(warning)}", file=sys.stderr)
    if not report.mergeable:
        more = f" ({len(report.reasons)} reasons; this is the first)" if len(report.reasons) > 1 else ""
        raise ConfigError(f"these models cannot be merged{more}: {report.reasons[0]}")


def make(
    recipe: Annotated[Path, Parameter(help="A recipe file: models, base, recipe, seed, dtype, tokenizer.")],
    /,
    *,
    out: Annotated[Path, Parameter(help="Folder to write: a new or an empty one.")],
    mergekit: Annotated[
        Path | None,
        Parameter(help="Also write the recipe for mergekit, as a YAML file, where mergekit can express it."),
    ] = None,
) -> None:
    """Make the model of a recipe: an ordinary folder, which AutoModelForCausalLM and AutoTokenizer load."""
    from evolora_core.searches.merging.recipe_file import load_recipe

    file = load_recipe(recipe)
    prepare_home()
    from evolora_core.searches.merging.make import make_described

    size = make_described(file, out, mergekit)
    print(f"{out}: {size} parameters, recipe {file.genome.id}")
