"""`evolora task …`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from evolora_core.engine.home import prepare_home
from evolora_core.errors import ConfigError
from evolora_core.foreign.text import one_line
from flows.cli._app import Json, Settings, lasts, progress, say, show, shown

if TYPE_CHECKING:
    from evolora_core.searches.adapters.arms.foresight import Foresight

WIDTH = 60  # characters of a prompt or answer that are shown


def register(app: App) -> None:
    """Add the commands."""
    task = App(name="task", help="Look at tasks of your own before they are run.", help_epilogue="")
    app.command(task)
    task.command(check, help_epilogue="Example: `evolora task check configs/suites/own-tasks.yaml`")


def check(
    suite: Annotated[Path, Parameter(help="A suite file with `tasks`.")],
    /,
    *,
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Ask the suite's host the tasks before a long run: accuracy, that of always giving the most frequent right answer,
    what a search finds, right and wrong answers, the longest prompt and right answer, the items that a seed needs, and
    the cost of a generation.
    """
    from evolora_core.searches.adapters.experiment import SuiteConfig
    from evolora_core.searches.registry import load_experiment

    loaded = load_experiment(suite, settings or [])
    if not isinstance(loaded, SuiteConfig):
        raise ConfigError(
            f"{suite}: key 'search': a suite of {loaded.search}; this command looks at suites of adapters, where the "
            "same `tasks` can stand"
        )
    if not loaded.tasks:
        raise ConfigError(f"{suite}: has no `tasks`; docs/extending.md shows how to bring one")
    prepare_home()

    import torch

    from evolora_core.language.hosts.host import load_host
    from evolora_core.searches.adapters.arms.foresight import foresee

    torch.set_num_threads(loaded.threads)
    host = load_host(loaded.host, device=loaded.device, dtype=loaded.dtype)
    with progress("a look at the tasks") as report:
        found, cost = foresee(loaded, host, report)
    rows = [_row(own) for own in found]
    if json:
        show(rows, True)
        return
    say(shown(rows, False))
    for own in found:
        print(f"\n{own.task}: answers of the bare host")
        say(shown([_example(outcome) for outcome in (*own.right, *own.wrong)], False))
    if isinstance(cost, str):
        print(f"\n{cost}")
        return
    print(
        f"\nA generation takes {lasts(cost.seconds)} and {cost.flops:.3g} FLOPs here. What the whole suite takes: "
        f"`evolora run {suite} --estimate`."
    )
    for own in found:
        if own.found == 0:
            print(f"\nA search found no right answer to {own.task}: rewards would teach nothing. Right answers would.")


def _row(own: "Foresight") -> dict[str, Any]:
    return {
        "task": own.task,
        "rows": own.rows,
        "a seed needs": own.wanted,
        "asked": own.asked,
        "right %": round(100 * own.accuracy, 1),
        "95 % interval": f"{100 * own.lo:.1f} to {100 * own.hi:.1f}",
        "always the same %": None if own.usual is None else f"{100 * own.usual[1]:.1f} ({one_line(own.usual[0], 20)})",
        "a search finds %": None if own.found is None else round(100 * own.found, 1),
        "longest prompt": f"{own.longest} of {own.context} tokens",
        "longest answer": None if own.answer is None else f"{own.answer} of {own.cap} tokens",
    }


def _example(outcome: Any) -> dict[str, Any]:
    return {
        "": "right" if outcome.grade.correct else "wrong",
        "prompt": one_line(outcome.item.prompt, WIDTH),
        "answer": one_line(outcome.answer, WIDTH),
        "why": outcome.grade.reason,
    }
