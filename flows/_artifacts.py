"""What a flow run of a suite shows in Prefect's UI: the headline of its pack, and where the pack is."""

from pathlib import Path
from typing import TYPE_CHECKING

from prefect.artifacts import create_link_artifact, create_table_artifact

from evolora_core.engine.home import home_path

if TYPE_CHECKING:
    from evolora_core.report.sections import Sections


def show_pack(suite: str, out: Path, sections: "Sections") -> None:
    """Publish the headline of a suite and a link to its pack, the folder `out`, as artifacts of the flow run."""
    from evolora_core.report import Contents

    pack = (out / "README.md").absolute()
    table = Contents(home_path(), suite, sections=sections).headline
    rows = [dict(zip((column.heading for column in table.columns), cells, strict=True)) for cells in table.cells()]
    text = f"{table.caption}. Pack: [{out}]({pack.as_uri()})"
    create_table_artifact(rows, key="paper-table", description=text)
    create_link_artifact(pack.as_uri(), link_text=str(out), key="paper-pack", description=f"Paper pack of {suite}")
