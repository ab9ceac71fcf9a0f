"""What all plots share: style, looks of conditions, legends, and files. Figures never touch pyplot's global state."""

from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path

import matplotlib
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image

from evolora_core.report.png import with_palette

STYLE = Path(__file__).with_name("evolora.mplstyle")
Look = tuple[str, str]  # colour and marker
OTHERS = [
    ("#009E73", "v"), ("#CC79A7", "P"), ("#56B4E9", "X"), ("#000000", "*"), ("#8C564B", "<"), ("#9467BD", ">"),
    ("#17BECF", "h"), ("#BCBD22", "p"), ("#1B4F72", "d"), ("#7D6608", "8"), ("#E377C2", "H"), ("#FF7F7F", "v"),
    ("#4D4D4D", "P"), ("#8FD175", "X"), ("#C7A76C", "<"), ("#3F51B5", ">"),
]  # fmt: skip


def save(figure: Figure, folder: Path, name: str, form: str = "png") -> Path:
    """Write `name`.png, or `name`.svg; equal figures give equal bytes."""
    path = folder / f"{name}.{form}"
    with matplotlib.rc_context(fname=STYLE):
        if form == "svg":
            figure.savefig(path, metadata={"Date": None, "Creator": None})
            return path
        drawn = BytesIO()
        figure.savefig(drawn, format="png", metadata={"Software": None}, pil_kwargs={"compress_level": 1})
    with Image.open(drawn) as image:
        with_palette(image).save(path, optimize=True)
    return path


def head(figure: Figure, text: str) -> None:
    """Say above a figure what it belongs to, small and left."""
    figure.suptitle(text, x=0.01, ha="left", fontsize=8, color="#555555", parse_math=False)


def looks_of(conditions: Iterable[str], known: Mapping[str, Look]) -> dict[str, Look]:
    """The looks of each condition: the same in every plot for those that are `known`; the others get theirs in the
    order in which a plot has them, and none that a known one in that plot has.
    """
    shown = [*dict.fromkeys(conditions)]
    taken = [known[condition] for condition in shown if condition in known]
    free = [look for look in OTHERS if look not in taken]
    own = [condition for condition in shown if condition not in known]
    return {**known} | {condition: free[i % len(free)] for i, condition in enumerate(own)}


def legend_below(
    figure: Figure, looks: Mapping[str, Look], *, line: bool = False, marker: bool = False, more: Sequence[Artist] = ()
) -> None:
    """A legend below the panels: each condition's line, marker or both, then what else is shown."""
    handles: list[Artist] = []
    for condition, (colour, own) in looks.items():
        handle = Line2D([], [], color=colour, label=condition, linestyle="-" if line else "")
        if marker:
            handle.set_marker(own)
        handles.append(handle)
    handles += more
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 5))
