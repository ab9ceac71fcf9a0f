"""How the plots of a page look, in light and in dark, and what each is made of."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evolora_core.searches.adapters.pack.looks import looks_of

if TYPE_CHECKING:
    import altair as alt

Rows = Sequence[Mapping[str, Any]]
ALL = "*"  # the family that is the whole of a split
# The page has a light and a dark face, and one colour for both: those that vanish on one of them are exchanged.
READABLE = {"#000000": "#8C6D31", "#1B4F72": "#3182BD", "#4D4D4D": "#A55194", "#F0E442": "#B8A800"}
CATEGORIES = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#9467BD", "#17BECF", "#7F7F7F",
    "#BCBD22", "#E377C2",
]  # fmt: skip
BARE, BETTER, WORSE = "#7F7F7F", "#0072B2", "#D55E00"


@dataclass(frozen=True)
class Plot:
    """A plot under its heading. says: what is seen, and how to use it, in a sentence or two; data: the rows that the
    chart calls by these names.
    """

    name: str
    title: str
    says: str
    chart: "alt.Chart | alt.LayerChart | alt.FacetChart"
    data: Mapping[str, Rows]

    def spec(self) -> dict[str, Any]:
        """What Vega-Lite draws."""
        spec: dict[str, Any] = self.chart.to_dict()
        spec["autosize"] = {"type": "fit-x", "contains": "padding"}
        return spec | {"datasets": {name: list(rows) for name, rows in self.data.items()}}


def rows_named(name: str) -> "alt.Chart":
    """A chart of the rows that its plot has under a name."""
    import altair as alt

    return alt.Chart(alt.NamedData(name))


def config(text: str, faint: str) -> dict[str, Any]:
    """Vega's configuration for a face with these colours of text and of lines behind the data."""
    return {
        "background": None,
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": {
            "labelColor": text, "titleColor": text, "gridColor": faint, "domainColor": faint, "tickColor": faint,
            "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelLimit": 130,
        },
        "legend": {
            "labelColor": text, "titleColor": text, "labelFontSize": 12, "orient": "bottom", "title": None,
            "columns": 2, "symbolOpacity": 1, "labelLimit": 150,
        },
        "text": {"color": text},
        "rule": {"color": text},
    }  # fmt: skip


FACES = {"light": config("#1d2430", "#dfe3e8"), "dark": config("#e4e8ee", "#38414d")}


def colours(conditions: Iterable[str]) -> "alt.Color":
    """The colour of each condition, as in the packs."""
    import altair as alt

    names = list(dict.fromkeys(conditions))
    looks = looks_of(names)
    shown = [READABLE.get(looks[name][0], looks[name][0]) for name in names]
    return alt.Color("condition:N", scale=alt.Scale(domain=names, range=shown))


def categories(field: str, names: Sequence[str]) -> "alt.Color":
    """Colours of families or niches."""
    import altair as alt

    shown = [CATEGORIES[place % len(CATEGORIES)] for place in range(len(names))]
    return alt.Color(f"{field}:N", scale=alt.Scale(domain=list(names), range=shown))


def menu(
    name: str, label: str, values: Sequence[Any], titles: Sequence[str] = (), start: Any = None
) -> "alt.Parameter":
    """A menu whose value a plot's expressions call `name`. It begins with `start`, or with the first value."""
    import altair as alt

    binding = alt.binding_select(options=list(values), labels=list(titles or map(str, values)), name=f"{label} ")
    return alt.param(name=name, value=values[0] if start is None else start, bind=binding)


def once(values: Iterable[Any]) -> list[Any]:
    """Each value once, in their order."""
    return list(dict.fromkeys(values))
