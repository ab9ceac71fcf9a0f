"""What a pack leaves alone where it takes another one's place."""

from pathlib import Path

from evolora_core.report.pack_folder import STAMP, put


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """What it leads to, somebody's key perhaps, is no part of a pack that is published."""
    (tmp_path / "secret").write_text("key")
    for name in ("out", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / STAMP).write_text('{"suite": "a-0123abcd", "config": {}}')
    (tmp_path / "out" / "notes.txt").symlink_to(tmp_path / "secret")
    (tmp_path / "out" / "gone.txt").symlink_to(tmp_path / "nowhere")
    put(tmp_path / "new", tmp_path / "out", {STAMP})
    assert (tmp_path / "out" / "notes.txt").readlink() == tmp_path / "secret"
    assert (tmp_path / "out" / "gone.txt").is_symlink()
