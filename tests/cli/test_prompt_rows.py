"""Files of prompts for `evolora ask`: what ends a line in them."""

import json
from pathlib import Path

import pytest

from evolora_core.errors import DataError
from flows.cli.ask import _rows

ENDS = "\u2028\u2029\x85"  # ends of lines to str.splitlines, and to nothing else that reads these files


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_prompt_may_hold_unicode_separators(tmp_path: Path, newline: str) -> None:
    prompts = [f"a{end}b" for end in ENDS]
    rows = [json.dumps({"prompt": prompt}, ensure_ascii=False) for prompt in prompts]
    for name, lines in (("prompts.jsonl", rows), ("prompts.txt", prompts)):
        (tmp_path / name).write_bytes("".join(f"{line}{newline}" for line in ["", *lines]).encode())
        assert [row["prompt"] for row in _rows(tmp_path / name)] == prompts


def test_a_faulty_line_behind_one_is_still_named_by_its_number(tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "a\u2028b"}\nno json\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"prompts\.jsonl:2: not valid JSON"):
        list(_rows(tmp_path / "prompts.jsonl"))
