"""`evolora ask` and `evolora chat`: talk to what evolved."""

import json as json_
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter, validators

from evolora_core.engine.home import prepare_home
from evolora_core.errors import ConfigError, DataError, EvoloraError
from evolora_core.foreign.text import printable_lines
from flows.cli._app import AnyId, AtLeastOne, progress

if TYPE_CHECKING:
    from evolora_core.searches.adapters.evolved import Evolved, Reply

BATCH = 256  # prompts between two lines of progress, and of the file
FACTS = ("answer", "who", "prompt_tokens", "answer_tokens", "finished", "flops")  # of a reply, which its row is given
ROUTED_AS = "routed_as"

Run = Annotated[str, Parameter(help="A finished run, such as quickstart.ecology.s0.")]
Organelle = Annotated[int | None, Parameter(help="Let this organelle answer everything."), AnyId]
Router = Annotated[
    str,
    Parameter(
        help="`learned`: the prompt decides who answers; `single`: one adapter does. By default `learned`, if there "
        "are several."
    ),
]
Longest = Annotated[int | None, Parameter(help="Token cap of an answer; by default that of the run."), AtLeastOne]
Heat = Annotated[
    float,
    Parameter(
        help="0: always the likeliest token; above 0: tokens are sampled.", validator=validators.Number(gte=0, lte=100)
    ),
]
Seed = Annotated[int, Parameter(help="Random seed of the samples."), AnyId]


def register(app: App) -> None:
    """Add the commands."""
    app.command(
        ask, help_epilogue="Example: `evolora ask quickstart.ecology.s0 --in prompts.jsonl --out answers.jsonl`"
    )
    app.command(
        chat, help_epilogue="Example: `evolora chat quickstart.ecology.s0 --prompt 'Sort the letters: q u i c k'`"
    )


def ask(
    run: Run,
    /,
    *,
    prompts: Annotated[Path, Parameter(name="--in", help="JSON Lines with `prompt`; or plain text lines.")],
    out: Annotated[Path, Parameter(help="JSON Lines to write: what came in, the answer, who gave it, and its cost.")],
    organelle: Organelle = None,
    routing: Annotated[
        str,
        Parameter(help="Who answers: as for `chat`, or `family`, which goes by the key `family` that each row has."),
    ] = "",
    max_new_tokens: Longest = None,
    temperature: Heat = 0.0,
    seed: Seed = 0,
) -> None:
    """Let a finished run answer a file of prompts, in batches. Ends with what it cost."""
    lines = dict(_rows(prompts))
    rows = list(lines.values())
    if out.exists():
        raise ConfigError(f"--out {out}: exists; name another file")
    if not out.parent.is_dir():
        raise ConfigError(f"--out {out}: there is no folder {out.parent}; make it, or name another file")
    home = prepare_home()

    from evolora_core.searches.adapters.evolved import open_run

    stated = [str(row["family"]) for row in rows if "family" in row]
    families = stated if len(stated) == len(rows) else None
    evolved = open_run(home, run, routing=routing, organelle=organelle, families=families is not None)
    if unfit := evolved.first_too_long([row["prompt"] for row in rows], max_new_tokens):
        raise DataError(f"{prompts}:{list(lines)[unfit[0]]}: prompt: {unfit[1]}")
    unfinished = out.with_name(f"{out.name}.unfinished")
    flops, bare = 0, 0
    with progress("ask") as report, unfinished.open("w", encoding="utf-8") as file:
        for start in range(0, len(rows), BATCH):
            part = rows[start : start + BATCH]
            replies = evolved.answer(
                [row["prompt"] for row in part],
                families=families[start : start + BATCH] if families else None,
                max_new_tokens=max_new_tokens,
                temperature=temperature,
                seed=seed,
                first=start + 1,
            )
            for row, reply in zip(part, replies, strict=True):
                facts = {name: getattr(reply, name) for name in FACTS}
                routed = {ROUTED_AS: reply.family} if reply.family else {}
                file.write(json_.dumps(row | facts | routed, ensure_ascii=False) + "\n")
                flops += reply.flops
                bare += not isinstance(reply.who, int)
            report(start + len(part), len(rows), "prompts")
    unfinished.replace(out)
    print(f"{out}: {len(rows)} answers of {evolved.name}, {flops:.3g} FLOPs")
    if bare:
        print(
            f"{bare} of them are the bare host's: these prompts look like nothing that an adapter learned, or none was "
            "better at it. --organelle asks one all the same.",
            file=sys.stderr,
        )


def chat(
    run: Run,
    /,
    *,
    prompt: Annotated[str | None, Parameter(help="Ask this alone, and end.")] = None,
    organelle: Organelle = None,
    routing: Router = "",
    max_new_tokens: Longest = None,
    temperature: Heat = 0.0,
    seed: Seed = 0,
) -> None:
    """Talk to a finished run. Every prompt stands alone: adapters have learned single answers, no conversations. After
    each answer stands who gave it and what it cost.
    """
    home = prepare_home()
    from evolora_core.searches.adapters.evolved import open_run

    evolved = open_run(home, run, routing=routing, organelle=organelle)
    given = {"max_new_tokens": max_new_tokens, "temperature": temperature}
    if prompt is not None:
        _say(evolved, prompt, seed=seed, **given)
        return
    print(f"{evolved.name}: organelles {', '.join(map(str, evolved.organelles))}; Ctrl-D ends", file=sys.stderr)
    for number, line in enumerate(_asked(), start=1):
        try:
            _say(evolved, line, seed=seed, first=number, **given)
        except EvoloraError as error:
            print(f"error: {error}", file=sys.stderr)


def _asked() -> Iterator[str]:
    while True:
        try:
            line = input("> " if sys.stdin.isatty() else "")
        except EOFError:
            return
        if line.strip():
            yield line


def _say(evolved: "Evolved", prompt: str, **given: Any) -> None:
    """Print an answer as it comes, and a line about it on standard error."""

    def told(text: str) -> None:
        print(printable_lines(text) if sys.stdout.isatty() else text, end="", flush=True)

    (reply,) = evolved.answer([prompt], told=told, **given)
    print(flush=True)
    print(about(reply), file=sys.stderr)


def about(reply: "Reply") -> str:
    """`[organelle 3 · as string.sort · 7 tokens · 1.2e+07 FLOPs]`."""
    who = f"organelle {reply.who}" if isinstance(reply.who, int) else "the bare host"
    parts = [who, *([f"as {reply.family}"] if reply.family else []), f"{reply.answer_tokens} tokens"]
    return f"[{' · '.join([*parts, f'{reply.flops:.2g} FLOPs'])}]"


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a file of prompts, each with the number of its line. DataError names that."""
    from evolora_core.foreign.documents import read_json
    from evolora_core.foreign.files import Unfit, read_text

    try:
        text = read_text(path).removeprefix("\ufeff")  # the mark that Windows puts before UTF-8
    except Unfit as error:
        raise DataError(f"{path}: {error}") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); name a file with prompts") from error
    plain = path.suffix not in (".jsonl", ".json")
    count = 0
    # str.splitlines would also split inside a JSON string, at U+2028 and the like.
    for number, ended in enumerate(text.split("\n"), start=1):
        line = ended.removesuffix("\r")
        if not line.strip():
            continue
        try:
            row = {"prompt": line} if plain else read_json(line)
        except ValueError as error:
            raise DataError(f"{path}:{number}: not valid JSON ({error}); write one object a line") from None
        given = row.get("prompt") if isinstance(row, dict) else None
        if not isinstance(given, str) or not given.strip():
            what = "missing" if given is None else "empty" if isinstance(given, str) else "no text"
            raise DataError(f'{path}:{number}: prompt: {what}; write {{"prompt": "…"}}')
        if taken := [key for key in (*FACTS, ROUTED_AS) if key in row]:
            raise DataError(f"{path}:{number}: key {taken[0]!r} is written with the answer; give yours another name")
        count += 1
        yield number, row
    if not count:
        raise DataError(f"{path}: has no prompts; write one a line")
