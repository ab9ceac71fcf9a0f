"""From rows of a user and a Python family to merged specialists, and to a pack."""

from pathlib import Path

import pytest
import yaml

from evolora_core.report import verify
from evolora_core.searches.merging.pack.sections import SECTIONS
from evolora_core.store import query
from flows.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "merging.md"
MORE = """
search: merging
name: own-merges
seeds: [0]
processes: 1
conditions: [base, parent-rounding, uniform, evomerge]
data: {train: 512, search: 8, selection: 8, test: 48}
specialists: {steps: 40, rows: 32, learning_rate: 0.001}
budget: {evaluations: 8, finalists: 2}
evaluation: {comparisons: [{a: evomerge, b: uniform}], bootstrap: 200}
"""


@pytest.fixture(scope="module")
def home(prefect_server: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a suite with the tasks and domains that the page shows."""
    folder = tmp_path_factory.mktemp("own-merges")
    shown = PAGE.read_text().partition("## Tasks of your own")[2].partition("```yaml\n")[2].partition("```")[0]
    (folder / "suite.yaml").write_text(yaml.safe_dump(yaml.safe_load(MORE) | yaml.safe_load(shown)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVOLORA_HOME", str(folder / "home"))
        patch.setenv("PREFECT_API_URL", prefect_server)
        patch.chdir(ROOT)
        with pytest.raises(SystemExit) as end:
            main(["run", str(folder / "suite.yaml"), "--packs", str(folder / "packs")])
    assert end.value.code == 0
    return folder / "home"


def test_a_specialist_of_the_rows_learns_them(home: Path) -> None:
    sql = "SELECT arm, score FROM merge_domains WHERE domain = 'rounding'"
    scores = dict(query(home, sql).rows)
    assert scores["parent-rounding"] > scores["base"] + 0.2


def test_the_rows_are_in_every_split_and_no_prompt_in_two(home: Path) -> None:
    sql = "SELECT split, n FROM splits WHERE family = 'rounded'"
    assert dict(query(home, sql).rows) == {"train": 512, "search": 8, "selection": 8, "test": 48}
    assert query(home, "SELECT count(*), sum(shared) FROM leaks").rows == [(6, 0)]
    assert query(home, "SELECT count(*) FROM splits WHERE family = 'string.rotate'").rows == [(4,)]


def test_the_pack_verifies(home: Path) -> None:
    assert verify(home, home.parent / "packs" / "own-merges", SECTIONS) == []
