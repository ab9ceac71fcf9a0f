"""What a flow run of a suite shows in Prefect's UI: the headline of its pack, and where the pack is."""

import logging
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from prefect.artifacts import create_link_artifact, create_table_artifact

from evolora_core.engine.home import home_path
from evolora_core.foreign.text import one_line
from evolora_core.searches.base import AnySearch, Page, page_file

if TYPE_CHECKING:
    from evolora_core.report.sections import Sections

log = logging.getLogger("evolora_core.stages")
# The store is imported where it is used: DuckDB complains of leaks at exit if it was imported with the flows.


def show_pack(suite: str, out: Path, sections: "Sections") -> None:
    """Publish the headline of a suite and a link to its pack, the folder `out`, as artifacts of the flow run."""
    from evolora_core.report import Contents
    from evolora_core.store import kept_open

    pack = (out / "README.md").absolute()
    with kept_open(home_path()):
        table = Contents(home_path(), suite, sections=sections).headline
    rows = [dict(zip((column.heading for column in table.columns), cells, strict=True)) for cells in table.cells()]
    text = f"{table.caption}. Pack: [{out}]({pack.as_uri()})"
    create_table_artifact(rows, key="paper-table", description=text)
    create_link_artifact(pack.as_uri(), link_text=str(out), key="paper-pack", description=f"Paper pack of {suite}")


def show_page(suite: str, search: AnySearch) -> None:
    """Draw the page of a suite and publish a link to it, where its search has one and the extra is there. A page is not
    worth a run: why it could not be drawn is logged.
    """
    if not search.page:
        return
    from evolora_core.store import kept_open

    page = import_module(search.page)
    if not page.installed():
        return
    try:
        with kept_open(home_path()):
            made: Page = page.write_page(home_path(), suite, page_file(home_path(), suite))
        text = " ".join([f"To look at {suite}: {made.items} items with every answer.", *made.left_out])
        create_link_artifact(made.file.as_uri(), link_text=made.file.name, key="scope", description=text)
    except Exception as error:  # a plotting library's too
        log.warning("the page of %s was not drawn: %s", suite, one_line(error))
