"""The paper pack: one folder with tables, plots, a README and provenance; and its verification against the store.

Nothing in it is dated, so that the same store gives the same pack, and verifying is building once more and comparing.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from evolora_core.errors import PackError
from evolora_core.evaluation.statistics import MIN_SEEDS
from evolora_core.pack_folder import OWN, STAMP, check_place, put
from evolora_core.report import figures
from evolora_core.report.contents import Contents, same
from evolora_core.report.tables import SPLITS, csv

TEMPLATES = Path(__file__).with_name("templates")


def build(home: Path, suite: str, out: Path) -> Path:
    """Make the pack of a suite id in the folder `out`, where it replaces another pack; returns `out`.

    Raises PackError if no seed is complete, if the store's comparisons do not follow from its items, or if `out` is a
    folder of something else.
    """
    out = Path(out)
    check_place(out)
    contents = Contents(Path(home), suite)
    if not contents.seeds and contents.config:
        raise PackError(f"{suite}: no seed is complete in every condition; see `evolora status`, then `evolora retry`")
    if wrong := contents.recount():
        raise PackError(f"{suite}: {wrong[0]} ({len(wrong)} differences); run the suite again")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as work:
        new = Path(work) / "new"
        plotted = figures.read(contents)
        write_numbers(contents, plotted, new)
        figures.draw(plotted, new / "plots")
        put(new, out)
    return out


def write_numbers(contents: Contents, plotted: dict[str, pd.DataFrame], folder: Path) -> None:
    """Everything with numbers in it: README, tables, summary, provenance, the data of the plots."""
    (folder / "plots").mkdir(parents=True)
    for name, shown in contents.tables.items():
        (folder / f"{name}.csv").write_text(shown[0].to_csv(), encoding="utf-8")
        (folder / f"{name}.md").write_text(
            "\n".join(f"{t.caption}\n\n{t.to_markdown()}" for t in shown), encoding="utf-8"
        )
        (folder / f"{name}.tex").write_text("\n".join(table.to_latex() for table in shown), encoding="utf-8")
    for name, document in (("summary.json", contents.summary), (STAMP, contents.provenance)):
        (folder / name).write_text(json.dumps(_rounded(document), indent=1) + "\n", encoding="utf-8")
    for name, data in plotted.items():
        (folder / "plots" / f"{name}.csv").write_text(csv(data), encoding="utf-8")
    (folder / "README.md").write_text(readme(contents, list(plotted)), encoding="utf-8")


def readme(contents: Contents, plots: list[str]) -> str:
    """The README, from its template."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
    return environment.get_template("README.md.j2").render(
        c=contents,
        config=contents.config,
        plots=plots,
        min_seeds=MIN_SEEDS,
        splits=SPLITS,
        headline=figures.headline(contents),
        signal=signal(contents.config["ecology"]["plasticity"]),
    )


def signal(plasticity: Mapping[str, Any]) -> str:
    """What an ecology's rule learns from, in words."""
    if plasticity["rule"] == "gold":
        return "which sees gold answers too"
    # Without the key the suite is of a version in which it was no setting and always counted.
    if plasticity["rule"] == "search" and plasticity.get("partial_credit", True):
        return "which sees rewards only, and searches on where the verifier gives partial credit"
    return "which sees rewards only"


def verify(home: Path, folder: Path) -> list[str]:
    """Compute every number of a pack anew from the store; returns the differences, one line each (none: it verifies).

    Comparisons and intervals are computed from the graded items, all else from the tables of the stages.
    """
    folder = Path(folder)
    if not (folder / STAMP).is_file():
        raise PackError(f"{folder}: is not a pack, it has no {STAMP}")
    try:
        suite = json.loads((folder / STAMP).read_text(encoding="utf-8"))["suite"]
    except (ValueError, KeyError) as error:
        raise PackError(f"{folder / STAMP}: damaged ({error}); build the pack again") from error
    contents = Contents(Path(home), suite)
    differences = contents.recount()
    plotted = figures.read(contents)
    with tempfile.TemporaryDirectory() as work:
        fresh = Path(work) / "pack"
        write_numbers(contents, plotted, fresh)
        given = [path.relative_to(fresh).as_posix() for path in sorted(fresh.rglob("*")) if path.is_file()]
        for name in map(Path, given):
            if not (folder / name).is_file():
                differences.append(f"{name}: is missing")
                continue
            text, now = ((path / name).read_text(encoding="utf-8") for path in (folder, fresh))
            differences += [f"{name}: {line}" for line in _differences(name.suffix, text, now)]
    images = [f"plots/{plot}.{suffix}" for plot in plotted for suffix in ("png", "svg")]
    differences += [f"{image}: is missing" for image in images if not (folder / image).is_file()]
    strange = {name for name in OWN if (folder / name).is_file()} - {*images, *given}
    return differences + [f"{name}: does not follow from the store" for name in sorted(strange)]


def _differences(suffix: str, text: str, now: str) -> Iterator[str]:
    """Where a file of the pack and what the store gives now are not the same."""
    if text == now:
        return
    if suffix == ".json":
        try:
            yield from _json_differences("", json.loads(text), json.loads(now))
        except ValueError as error:
            yield f"is not JSON ({error})"
        return
    old, new = text.splitlines(), now.splitlines()
    if len(old) != len(new):
        yield f"has {len(old)} lines, the store gives {len(new)}"
    for number, (left, right) in enumerate(zip(old, new, strict=False), start=1):
        cells = [line.split(",") if suffix == ".csv" else [line] for line in (left, right)]
        if len(cells[0]) != len(cells[1]):
            yield f"line {number} has {len(cells[0])} cells, the store gives {len(cells[1])}"
        for was, is_now in zip(*cells, strict=False):
            if not same(_number(was), _number(is_now)):
                yield f"line {number} has `{was.strip()}`, the store gives `{is_now.strip()}`"


def _json_differences(place: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _json_differences(f"{place}.{key}".lstrip("."), old.get(key), new.get(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (left, right) in enumerate(zip(old, new, strict=True)):
            yield from _json_differences(f"{place}[{i}]", left, right)
    elif not same(old, new):
        yield f"{place} is {json.dumps(old)}, the store gives {json.dumps(new)}"


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _rounded(document: Any) -> Any:
    """The document with floats of 12 significant digits."""
    if isinstance(document, dict):
        return {key: _rounded(value) for key, value in document.items()}
    if isinstance(document, list):
        return [_rounded(value) for value in document]
    return float(f"{document:.12g}") if isinstance(document, float) else document
