import json
from pathlib import Path
from typing import Any

import pytest

from evolora_core.errors import HostError
from evolora_core.language.hosts import arithmetic
from evolora_core.language.hosts.arithmetic import settled_dtype
from evolora_core.language.hosts.host import load_host
from evolora_core.searches.adapters.experiment import load_suite
from flows._preflight import use_host


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("EVOLORA_HOME", str(tmp_path))
    return tmp_path


def test_what_is_asked_for_is_taken_and_nothing_measured(home: Path) -> None:
    assert settled_dtype("float32", "cpu") == "float32"
    assert not (home / arithmetic.RECORD).exists()


@pytest.mark.parametrize(("times", "expected"), [(1.2, "float32"), (2.0, "bfloat16")])
def test_only_much_faster_is_worth_the_digits(
    home: Path, monkeypatch: pytest.MonkeyPatch, times: float, expected: str
) -> None:
    monkeypatch.setattr(arithmetic, "_gigaflops", lambda kind, device: 100.0 * (times if kind == "bfloat16" else 1))
    assert settled_dtype("auto", "cpu") == expected


def test_the_answer_is_measured_once_and_stays(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = settled_dtype("auto", "cpu")
    (record,) = json.loads((home / arithmetic.RECORD).read_text()).values()
    assert record["dtype"] == first and min(record["gigaflops"].values()) > 0
    monkeypatch.delattr(arithmetic, "_gigaflops")
    assert settled_dtype("auto", "cpu") == first


def test_suites_and_hosts_name_what_was_settled(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arithmetic, "_gigaflops", lambda kind, device: {"bfloat16": 9.0, "float32": 1.0}[kind])
    use = use_host(load_suite("configs/suites/tiny.yaml", ["dtype=auto"]))
    assert use is not None and use.dtype == use.identity["dtype"] == "bfloat16"
    assert load_host("nano", dtype="auto").identity["dtype"] == "bfloat16"


@pytest.mark.parametrize("text", ["{", "[]", '{"a CPU": {}}'])
def test_a_damaged_record_is_told(home: Path, text: str) -> None:
    (home / arithmetic.RECORD).write_text(text)
    with pytest.raises(HostError, match=r"arithmetic\.json: damaged .*; remove it"):
        settled_dtype("auto", "cpu")
