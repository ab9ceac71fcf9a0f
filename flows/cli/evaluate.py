"""`evolora evaluate`."""

import sys
from os.path import exists
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from evolora_core.engine.home import home_path, prepare_home
from evolora_core.errors import AdapterError, ConfigError, DataError
from evolora_core.searches.adapters.settings.evaluation import Routing
from flows.cli._app import AnyId, AtLeastOne, Json, progress, show

if TYPE_CHECKING:
    from evolora_core.engine.run_index import Entry
    from evolora_core.language.families.base import Item


def register(app: App) -> None:
    """Add the command."""
    app.command(evaluate, help_epilogue="Example: `evolora evaluate --holdout mine.jsonl --run quickstart.ecology.s0`")


def evaluate(
    *,
    holdout: Annotated[Path, Parameter(help="JSON Lines with prompt, target, family and depth, or in the regex form.")],
    host: Annotated[str | None, Parameter(help="Host; by default that of the run, else nano.")] = None,
    adapter: Annotated[
        list[Path] | None, Parameter(consume_multiple=True, help="PEFT adapter folders, in one list or repeated.")
    ] = None,
    run: Annotated[str | None, Parameter(help="A finished run, such as quickstart.ecology.s0.")] = None,
    routing: Annotated[
        Routing | None, Parameter(help="Which router the run answers with; by default `family`.")
    ] = None,
    organelle: Annotated[int | None, Parameter(help="Let this organelle of the run answer everything."), AnyId] = None,
    max_new_tokens: Annotated[
        int | None, Parameter(help="Token cap of an answer; by default that of the run, else 32."), AtLeastOne
    ] = None,
    device: Annotated[str | None, Parameter(help="cpu, cuda or cuda:1; by default that of the run, else cpu.")] = None,
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"] | None,
        Parameter(help="Number format of the host; float32 by default. A run has its own."),
    ] = None,
    json: Json = False,
) -> None:
    """Grade the host, adapters and an evolved run on a holdout file: accuracy with its Wilson interval."""
    from evolora_core.language.decoding import DecodingConfig
    from evolora_core.language.holdouts import read_holdout
    from evolora_core.language.tasks.own import enter_beside
    from evolora_core.searches.adapters.finished import check_host, datasets_of, find, load_own_host, load_run

    if organelle is not None and run is None:
        raise ConfigError("--organelle: name the run that it lives in with --run")
    if routing and run is None:
        raise ConfigError("--routing: name the run whose router answers with --run")
    if routing and organelle is not None:
        raise ConfigError("--organelle: answers everything, so that --routing decides nothing; take one of them")
    if dtype and run is not None:
        raise ConfigError("--dtype: a run answers in the number format that it was made in; leave --dtype out")
    routing = routing or "family"
    entry: Entry | None = None
    suite: dict[str, Any] = {}
    if run:
        entry, suite = find(prepare_home(), run)
        enter_beside(datasets_of(home_path(), entry))  # the file may ask for a task of the run's suite
    items = read_holdout(holdout)
    if run and entry:
        items = _unseen(items, holdout, run, datasets_of(home_path(), entry))
    for folder in adapter or []:
        if not exists(config := folder / "adapter_config.json"):  # told before torch, which takes seconds, is imported
            raise AdapterError(f"{config}: missing; name a folder that PEFT's save_pretrained wrote")
    home = prepare_home()
    word = host or suite.get("host", "nano")
    if entry:
        check_host(home, entry, word, mend="name that one with --host")
    given = suite.get("decoding", {}) | ({"max_new_tokens": max_new_tokens} if max_new_tokens is not None else {})
    if (given.get("max_new_tokens") or 1) > 65_536:
        raise ConfigError(f"--max-new-tokens {given['max_new_tokens']}: no host has that much room; ask for less")
    decoding = DecodingConfig.model_validate(given)

    from evolora_core.language.hosts.host import check_device, load_host
    from evolora_core.lora.population.peft_io import base_named
    from evolora_core.searches.adapters.evaluation.holdout import evaluate_holdout

    for folder in adapter or []:
        base_named(folder)  # AdapterError, before the host is loaded, for settings that are no adapter's
    if device:
        check_device(word, device)  # one that is asked for is no wish: nothing takes its place
    if entry:
        loaded = load_own_host(home, entry, word, device or suite.get("device", "cpu"))
    else:
        loaded = load_host(word, device=device or "cpu", dtype=dtype or "float32")
    if decoding.max_new_tokens >= loaded.max_context:
        raise ConfigError(
            f"--max-new-tokens {decoding.max_new_tokens}: {word} has a context of {loaded.max_context} tokens, prompt "
            "and answer together; ask for less"
        )
    evolved = load_run(home, entry, loaded, routing) if entry else None
    with progress("evaluate") as report:
        rows = evaluate_holdout(
            loaded,
            items,
            decoding=decoding,
            adapters=adapter or [],
            evolved=evolved,
            routing=routing,
            organelle=organelle,
            progress=report,
        )
    show(rows, json)


def _unseen(items: "list[Item]", holdout: Path, run: str, datasets: Path) -> "list[Item]":
    """The items that a run saw neither in training nor in selection, and a line about the others. DataError: no item is
    left.
    """
    from evolora_core.searches.adapters.evaluation.holdout_files import known_prompts, unseen

    known = known_prompts(datasets)
    if not known:
        print(f"warning: {datasets}: missing, so prompts that {run} has seen are graded too", file=sys.stderr)
    kept = [items[place] for place in unseen(items, known)]
    if not kept:
        raise DataError(f"{holdout}: {run} saw all its prompts in training or selection; name a file with others")
    if seen := len(items) - len(kept):
        words = f"{seen} of {len(items)} prompts were seen by {run} in training or selection; left out"
        print(f"{holdout}: {words}", file=sys.stderr)
    return kept
