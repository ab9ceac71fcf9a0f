"""Files of prompts for `evolora ask`: what ends a line in them, what a row may hold, and which one is at fault."""

import json
from pathlib import Path

import pytest
from commands import command

import flows.cli.ask
from evolora_core.errors import DataError
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.hosts.host import load_host
from evolora_core.searches.adapters import evolved
from evolora_core.searches.adapters.finished import TrainedRun
from evolora_core.searches.adapters.routing.routes import Routes
from flows.cli.ask import _rows

ENDS = "\u2028\u2029\x85"  # ends of lines to str.splitlines, and to nothing else that reads these files


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_prompt_may_hold_unicode_separators(tmp_path: Path, newline: str) -> None:
    prompts = [f"a{end}b" for end in ENDS]
    rows = [json.dumps({"prompt": prompt}, ensure_ascii=False) for prompt in prompts]
    for name, lines in (("prompts.jsonl", rows), ("prompts.txt", prompts)):
        (tmp_path / name).write_bytes("".join(f"{line}{newline}" for line in ["", *lines]).encode())
        assert [row["prompt"] for _, row in _rows(tmp_path / name)] == prompts


def test_a_faulty_line_behind_one_is_still_named_by_its_number(tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "a\u2028b"}\nno json\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"prompts\.jsonl:2: not valid JSON"):
        list(_rows(tmp_path / "prompts.jsonl"))


def test_a_byte_order_mark_is_no_part_of_a_prompt(tmp_path: Path) -> None:
    for name, line in (("prompts.txt", "one"), ("prompts.jsonl", '{"prompt": "one"}')):
        (tmp_path / name).write_text(f"{line}\n", encoding="utf-8-sig")
        assert [row["prompt"] for _, row in _rows(tmp_path / name)] == ["one"]


@pytest.mark.parametrize("key", ["answer", "who", "flops", "routed_as"])
def test_a_key_that_the_answer_would_replace_is_refused(key: str, tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text(json.dumps({"prompt": "one", key: 1}) + "\n")
    with pytest.raises(
        DataError, match=rf"prompts\.jsonl:1: key '{key}' is written with the answer; give yours another"
    ):
        list(_rows(tmp_path / "prompts.jsonl"))


def test_prompts_are_counted_over_all_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host = load_host("nano")
    bare = evolved.Evolved("bare", host, TrainedRun("bare", None, {}), DecodingConfig(), Routes("single", {}))
    monkeypatch.setattr(evolved, "open_run", lambda *_, **__: bare)
    monkeypatch.setattr(flows.cli.ask, "BATCH", 2)
    rows = [{"prompt": "Compute 1 + 1.", "gold": 2}] * 2
    long = {"prompt": "a b " * host.max_context}
    for name, own in (("short", rows), ("long", [*rows, long])):
        (tmp_path / f"{name}.jsonl").write_text("\n" + "".join(json.dumps(row) + "\n" for row in own))
    asked = ["ask", "bare", "--max-new-tokens", "2", "--in"]
    code, _, err = command(capsys, *asked, str(tmp_path / "short.jsonl"), "--out", str(tmp_path / "out.jsonl"))
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert code == 0 and [(row["gold"], row["who"]) for row in written] == [(2, "host")] * 2
    code, _, err = command(capsys, *asked, str(tmp_path / "long.jsonl"), "--out", str(tmp_path / "other.jsonl"))
    assert code != 0 and "long.jsonl:4: prompt: its" in err and not (tmp_path / "other.jsonl.unfinished").exists()


def test_samples_are_the_same_in_other_batches_and_others_with_another_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = evolved.Evolved("bare", load_host("nano"), TrainedRun("bare", None, {}), DecodingConfig(), None).bare()
    monkeypatch.setattr(evolved, "open_run", lambda *_, **__: bare)
    (tmp_path / "in.jsonl").write_text('{"prompt": "Compute 1 + 1."}\n' * 4)
    asked = ["ask", "bare", "--in", str(tmp_path / "in.jsonl"), "--max-new-tokens", "6", "--temperature", "4"]

    def sampled(batch: int, seed: int) -> list[str]:
        monkeypatch.setattr(flows.cli.ask, "BATCH", batch)
        out = tmp_path / f"{batch}-{seed}.jsonl"
        assert command(capsys, *asked, "--seed", str(seed), "--out", str(out))[0] == 0
        return [json.loads(line)["answer"] for line in out.read_text().splitlines()]

    together, apart, other = sampled(4, 0), sampled(2, 0), sampled(2, 2)
    assert together == apart and len({*together, *other}) == 8


def test_a_run_whose_routes_go_by_more_than_the_prompt_wants_an_organelle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = evolved.Evolved("deep", load_host("nano"), TrainedRun("deep", None, {}), DecodingConfig(), None)
    monkeypatch.setattr(evolved, "open_run", lambda *_, **__: run)
    (tmp_path / "in.jsonl").write_text('{"prompt": "Compute 1 + 1."}\n')
    code, _, err = command(capsys, "ask", "deep", "--in", str(tmp_path / "in.jsonl"), "--out", str(tmp_path / "out"))
    assert code == 1 and err.strip() == (
        "error: deep: its routes go by more than the prompt; name an organelle (--organelle)"
    )
    assert not (tmp_path / "out").exists()
