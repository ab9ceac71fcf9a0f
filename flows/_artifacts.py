"""What a flow run of a suite shows in Prefect's UI: the paper table, accuracy first, and where its pack is."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prefect.artifacts import create_link_artifact, create_table_artifact

from evolora_core.home import home_path

NONE = "–"  # as in the pack's tables
ACCURACIES = {
    "in distribution %": "holdout_id",
    "out of distribution %": "holdout_ood",
    "retention %": "retention",
}


def show_pack(suite: str, out: Path) -> None:
    """Publish the paper table of a suite and a link to its pack, the folder `out`, as artifacts of the flow run."""
    from evolora_core.report.tables import paper_table

    pack = (out / "README.md").absolute()
    text = f"Paper table of {suite}: means over seeds, 95 % intervals. Pack: [{out}]({pack.as_uri()})"
    create_table_artifact(table_rows(paper_table(home_path(), suite).records()), key="paper-table", description=text)
    create_link_artifact(pack.as_uri(), link_text=str(out), key="paper-pack", description=f"Paper pack of {suite}")


def table_rows(paper: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The rows of the view `paper_table` as a reader wants them: who, accuracy in percent with its interval, cost."""
    return [
        {"condition": str(row["condition"]), "seeds": str(row["seeds"])}
        | {heading: _percent(row, split) for heading, split in ACCURACIES.items()}
        | {"training FLOPs": _flops(row["train_flops"]), "total FLOPs": _flops(row["total_flops"])}
        for row in paper
    ]


def _percent(row: Mapping[str, Any], split: str) -> str:
    """`82.8 [71.8, 92.2]`: three digits at most; the interval where the row has one."""
    if row[f"{split}_acc"] is None:
        return NONE
    mean, *ends = (f"{100 * row[name]:.3g}" for name in _names(row, split))
    return f"{mean} [{', '.join(ends)}]" if ends else mean


def _names(row: Mapping[str, Any], split: str) -> list[str]:
    ends = [f"{split}_lo", f"{split}_hi"]
    return [f"{split}_acc", *(ends if all(row.get(name) is not None for name in ends) else [])]


def _flops(value: float | None) -> str:
    return NONE if value is None else f"{value:.3g}"
