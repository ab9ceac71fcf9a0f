"""`evolora attention …`."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter, validators

from evolora_core.errors import ConfigError
from flows.cli._app import AnyId, AtLeastOne, Json, progress, say, show

if TYPE_CHECKING:
    from evolora_core.searches.attention.commands.asked import MeasureSettings

UNUSED = 9000  # run seed of `validate`, which no kept suite has
QUICK_SIZES, QUICK_STEPS = ("xs", "s"), 60  # of a measurement that takes a minute or two and shows large gains alone

Words = Annotated[str, Parameter(help="Program files, and mechanisms of `evolora attention list`.")]
Word = Annotated[str, Parameter(help="A program file, or a mechanism of `evolora attention list`.")]
Sizes = Annotated[
    Sequence[str],
    Parameter(
        consume_multiple=True, help="Sizes of the model, in one list such as `xs s m`; there are xs, s, m, l, xl, xxl."
    ),
]
Rates = Annotated[
    Sequence[float],
    Parameter(
        consume_multiple=True,
        validator=validators.Number(gt=0, lte=1000),
        help="Learning rates, in one list; each size takes the best.",
    ),
]
SeedCount = Parameter(validator=validators.Number(gte=1, lte=400))  # further seeds have another role (`seeds.py`)
Seed = Annotated[int, Parameter(help="Run seed: draws the corpus and the training seeds."), AnyId]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Measured:
    """How `measure` trains."""

    sizes: Sizes = ("xs", "s", "m")
    steps: Annotated[int, Parameter(help="Training steps, each of 16 rows."), AtLeastOne] = 300
    seeds: Annotated[int, Parameter(help="Training seeds; intervals need two."), SeedCount] = 1
    rates: Rates = (0.004, 0.008, 0.016, 0.032)
    seed: Seed = 0
    train: Annotated[
        int, Parameter(help="Rows of 32 tokens to train on.", validator=validators.Number(gte=2, lte=10_000_000))
    ] = 20_000
    texts: Annotated[
        int,
        Parameter(
            help="Held-out texts; half of them are used here.", validator=validators.Number(gte=16, lte=1_000_000)
        ),
    ] = 4096
    parallel: Annotated[
        int,
        Parameter(help="Models to train at a time; changes no result.", validator=validators.Number(gte=1, lte=256)),
    ] = 1
    minutes: Annotated[
        float, Parameter(help="Longest time of one training.", validator=validators.Number(gt=0, lte=100_000))
    ] = 30.0


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Validated(Measured):
    """How `validate` trains: with more seeds and rates, from another run seed."""

    seeds: Annotated[
        int, Parameter(help="Training seeds; a verdict needs six at one size, seven at three."), SeedCount
    ] = 10
    rates: Rates = (0.004, 0.008, 0.016, 0.032, 0.064)
    seed: Seed = UNUSED


def register(app: App) -> None:
    """Add the commands."""
    attention = App(name="attention", help="Examine and measure attention mechanisms.", help_epilogue="")
    app.command(attention)
    attention.command(
        check, help_epilogue="Example: `evolora attention check mine.py --framework coefficient-dynamics`"
    )
    attention.command(measure, help_epilogue="Example: `evolora attention measure mine.py --beside rope composite`")
    attention.command(
        validate, help_epilogue="Example: `evolora attention validate mine.py --against composite --seeds 10`"
    )
    attention.command(list_all, name="list", help_epilogue="Example: `evolora attention list`")
    attention.command(
        show_one, name="show", help_epilogue="Example: `evolora attention show coefficient-dynamics > mine.py`"
    )


def check(
    program: Word,
    /,
    *,
    framework: Annotated[
        str | None, Parameter(help="Framework that it has to belong to; by default the whole file is free.")
    ] = None,
    sizes: Sizes = ("xs", "s", "m", "l"),
    json: Json = False,
) -> None:
    """Say whether a program may be trained: does it do what it must, and see nothing that comes later? Ends with 1 and
    the reason where it is refused.
    """
    from evolora_core.searches.attention.commands.programs import named, sizes_named
    from evolora_core.searches.attention.frameworks.registry import get_framework

    chosen = None if framework is None else get_framework(framework).name
    own, at = named(program), sizes_named(sizes)
    from evolora_core.searches.attention.commands.reading import read_program

    found = read_program(own, chosen)
    if not found.refused:
        from evolora_core.searches.attention.commands.check import SECONDS, climb_ladder

        if sys.stderr.isatty():
            print(f"{program}: runs in the sandbox, for {SECONDS:.0f} s at most", file=sys.stderr)
        found = climb_ladder(own, chosen, at)
    show(found.rows, json)
    if found.refused:
        raise ConfigError(f"{program}: {found.refused}")


def measure(
    *programs: Words,
    beside: Annotated[
        list[str] | None,
        Parameter(consume_multiple=True, help="More mechanisms or files to compare with, in one list."),
    ] = None,
    how: Measured = Measured(),
    json: Json = False,
) -> None:
    """Train programs at several sizes, beside softmax attention (mha), with the learning rates that suit mha. Gains
    over mha are in nats of a held-out token, with 95 % intervals; FLOPs and seconds are multiples of mha's. Three sizes
    also predict the gain at three times the largest.
    """
    from evolora_core.searches.attention.commands.programs import named_once
    from evolora_core.searches.attention.known.registry import BASELINE

    if not programs:
        raise ConfigError("attention measure: name a program file, or a mechanism of `evolora attention list`")
    chosen = named_once([BASELINE, *(beside or []), *programs])
    asked = _asked(how)
    _announce(asked, tuned=1, measured=len(chosen))
    from evolora_core.searches.attention.commands.measure import measure_programs

    with progress("measure") as report:
        rows = measure_programs(chosen, asked, report)
    show(rows, json)


def validate(
    program: Word,
    /,
    *,
    against: Annotated[str, Parameter(help="The other side: a program file or a mechanism.")] = "mha",
    how: Validated = Validated(),
    json: Json = False,
) -> None:
    """Compare two programs, each at its own best learning rate, on training seeds that `measure` does not use and on
    texts drawn anew, of which about 3 % are the same. Prints for each size the gain (nats per held-out token) with its
    interval, p, Holm's p, Cohen's d and a verdict; with three sizes also the gain that the fitted law predicts.
    """
    from evolora_core.searches.attention.commands.programs import named

    own, other = named(program), named(against)
    if own.name == other.name:
        raise ConfigError(f"--against {other.name}: that is the program itself")
    asked = _asked(how)
    _announce(asked, tuned=2, measured=2)
    from evolora_core.searches.attention.commands.validate import validate_program

    with progress("validate") as report:
        rows = validate_program(own, other, asked, report)
    show(rows, json)


def list_all(*, json: Json = False) -> None:
    """Show the known mechanisms and the frameworks."""
    from evolora_core.searches.attention.commands.programs import list_programs

    show(list_programs(), json)


def show_one(name: Annotated[str, Parameter(help="A mechanism or a framework.")], /) -> None:
    """Print the program of a mechanism or the template of a framework, to begin a file of your own with."""
    from evolora_core.searches.attention.commands.programs import source_named

    say(source_named(name).rstrip("\n"))


def _asked(how: Measured) -> "MeasureSettings":
    """What `measure` and `validate` are told alike. ConfigError for a size that there is not."""
    from evolora_core.searches.attention.commands.programs import sizes_named

    sizes = tuple(sizes_named(how.sizes))
    from evolora_core.searches.attention.commands.asked import MeasureSettings

    return MeasureSettings(
        sizes, how.steps, how.seeds, how.seed, tuple(how.rates), how.train, how.texts, how.parallel, how.minutes
    )


def _announce(asked: "MeasureSettings", *, tuned: int, measured: int) -> None:
    """Say how much there is to train before it begins, since it may take an hour, and what takes less."""
    trainings = len(asked.sizes) * asked.each_size(tuned=tuned, measured=measured)
    less = [] if {*asked.sizes} <= {*QUICK_SIZES} else ["--sizes", *QUICK_SIZES]
    less += ["--steps", str(QUICK_STEPS)] if asked.steps > QUICK_STEPS else []
    hint = f"; {' '.join(less)} is a quick look" if less else ""
    print(f"{_counted(trainings, 'training')} at {_counted(len(asked.sizes), 'size')}{hint}", file=sys.stderr)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
