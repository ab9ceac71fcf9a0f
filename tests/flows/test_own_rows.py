"""From rows of a user to a pack, and to somebody who answers: the suite of docs/extending.md, made smaller."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from evolora_core.engine.stage import Suite
from evolora_core.errors import ConfigError
from evolora_core.searches.adapters.experiment import load_suite
from evolora_core.searches.adapters.stages import datasets
from evolora_core.searches.registry import suite_id
from evolora_core.store import query
from flows.cli import main

ROOT = Path(__file__).resolve().parents[2]
SMALL = (
    "seeds=[0]", "conditions=[frozen, ecology, sft]", "processes=1",
    "evaluation.comparisons=[{a: ecology, b: sft, split: holdout_id}]", "evaluation.bootstrap=200",
    "data.train_items=128", "data.selection_items=16", "data.holdout_items=48", "ecology.generations=2",
    "ecology.episodes=32", "ecology.samples=2", "calibration.generations=1", "sft.checkpoints=2",
)  # fmt: skip


def test_the_page_shows_the_suite() -> None:
    page = (ROOT / "docs" / "extending.md").read_text()
    shown = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])
    suite = yaml.safe_load((ROOT / "configs" / "suites" / "own-tasks.yaml").read_text())
    assert shown == {key: suite[key] for key in shown} and {*shown} == {"tasks", "data"}


def test_where_rows_lie_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for name in ("rounded.csv", "rotate.py"):
        shutil.copy(f"configs/tasks/{name}", tmp_path)
    text = Path("configs/suites/own-tasks.yaml").read_text()
    (tmp_path / "own-tasks.yaml").write_text(text.replace("configs/tasks", str(tmp_path)))

    def identity(path: Path | str) -> str:
        config = load_suite(path)
        return datasets.request(Suite(config, suite_id(config)), 0).identity

    assert identity("configs/suites/own-tasks.yaml") == identity(tmp_path / "own-tasks.yaml")
    (tmp_path / "rounded.csv").open("a").write("1234,56,1180\n")
    assert identity("configs/suites/own-tasks.yaml") != identity(tmp_path / "own-tasks.yaml")


@pytest.fixture(scope="module")
def finished(prefect_server: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The suite, run by the command that the page names."""
    place = tmp_path_factory.mktemp("own")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVOLORA_HOME", str(place / "home"))
        patch.setenv("PREFECT_API_URL", prefect_server)
        patch.chdir(ROOT)
        changes = [word for change in SMALL for word in ("--set", change)]
        with pytest.raises(SystemExit) as end:
            main(["run", "configs/suites/own-tasks.yaml", "--packs", str(place / "packs"), *changes])
        assert end.value.code == 0
        yield SimpleNamespace(home=place / "home", pack=place / "packs" / "own-tasks")


def test_every_arm_is_judged_on_the_users_rows(finished: SimpleNamespace) -> None:
    sql = """SELECT condition, family, n FROM accuracy
        WHERE condition = arm AND family IN ('rounded', 'string.rotate') ORDER BY ALL"""
    found = query(finished.home, sql).rows
    assert found == [
        (condition, family, count)
        for condition in ("ecology", "frozen", "sft")
        for family, count in (("rounded", 24), ("string.rotate", 48))
    ]
    assert (finished.pack / "README.md").is_file()


def test_the_splits_are_the_users_rows_and_share_none(finished: SimpleNamespace) -> None:
    sizes = dict(query(finished.home, "SELECT split, n FROM splits WHERE family = 'rounded'").rows)
    assert sizes == {"train": 64, "selection": 8, "holdout_id": 24}
    assert query(finished.home, "SELECT sum(shared) FROM leaks").rows == [(0,)]


def test_a_holdout_file_may_ask_for_the_users_task(finished: SimpleNamespace, tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_text(
        '{"prompt": "Compute 512 - 7.", "target": 500, "family": "rounded", "depth": "all"}\n'
    )
    arguments = ["--holdout", str(tmp_path / "more.jsonl"), "--run", "own-tasks.ecology.s0"]
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setenv("EVOLORA_HOME", str(finished.home))
        main(["evaluate", *arguments])
    assert end.value.code == 0


def test_the_splits_are_a_data_set_again(finished: SimpleNamespace, tmp_path: Path) -> None:
    """What `evolora export-data` writes is read by `datasets`, and by a suite as a task with splits of its own."""
    import datasets

    from evolora_core.language.tasks.pools import read_pool
    from evolora_core.language.tasks.settings import TaskConfig

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setenv("EVOLORA_HOME", str(finished.home))
        main(["export-data", "own-tasks", "--out", str(tmp_path / "data")])
    assert end.value.code == 0
    found = datasets.load_dataset(str(tmp_path / "data"), cache_dir=str(tmp_path / "cache"))
    assert {name: len(rows) for name, rows in found.items()} == {
        "train": 128, "selection": 16, "holdout_id": 48, "holdout_ood": 48, "retention": 48,
    }  # fmt: skip
    own = [row for row in found["train"] if row["family"] == "rounded"]
    assert len(own) == 64 and all(row["answer"] == row["target"] and row["answer"].endswith("0") for row in own)
    splits = {"train": "train", "selection": "selection", "holdout": "holdout_id"}
    settings = {"name": "again", "data": str(tmp_path / "data"), "splits": splits, "verifier": {"kind": "exact"}}
    assert len(read_pool(TaskConfig.model_validate(settings)).parts["holdout"]) == 48


def test_the_host_is_asked_before_a_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`evolora task check`, on the shipped suite and on a task that the host knows nothing of."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setenv("EVOLORA_HOME", str(tmp_path))
        patch.chdir(ROOT)
        main(["task", "check", "configs/suites/own-tasks.yaml", "--set", "ecology.episodes=128"])
    said = capsys.readouterr().out
    assert end.value.code == 0 and "rounded: answers of the bare host" in said and "own-tasks.yaml --estimate" in said
    table = {line.split()[0]: line.split() for line in said.split("\n\n")[0].splitlines()[1:]}
    assert table["rounded"][1:3] == ["2400", "1344"] and 0 < float(table["rounded"][4]) < 50
    assert table["rounded"][8:10] == ["1.7", "(330)"]  # the most frequent right answer
    assert float(table["rounded"][10]) > float(table["rounded"][4])  # a search finds more than greedy answers give
    assert table["string.rotate"][1] == "512"  # drawn, and not trained on


def test_a_task_of_which_nothing_is_right_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = "".join(f"{number} in Klingon?,qo'{number:04}x\n" for number in range(200))
    (tmp_path / "rows.csv").write_text(f"prompt,answer\n{rows}")
    tasks = f"[{{name: klingon, data: {tmp_path / 'rows.csv'}, verifier: {{kind: exact}}}}]"
    changes = [f"tasks={tasks}", "data.train_families=[klingon]", "data.ood_families=[math]", "data.train_items=64",
        "data.selection_items=16", "data.holdout_items=16"]  # fmt: skip
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setenv("EVOLORA_HOME", str(tmp_path))
        patch.chdir(ROOT)
        words = [word for change in changes for word in ("--set", change)]
        main(["task", "check", "configs/suites/own-tasks.yaml", *words])
    said = capsys.readouterr().out
    assert (
        end.value.code == 0 and "of the first 2 generations was ever answered correctly, so rewards cannot vary" in said
    )


RUN = "own-tasks.ecology.s0"


def told(finished: SimpleNamespace, *arguments: str) -> int:
    """The exit code of a command in the suite's home."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setenv("EVOLORA_HOME", str(finished.home))
        main(arguments)
    return int(end.value.code or 0)


def test_a_file_of_prompts_is_answered_as_one_prompt_is(
    finished: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = ["Compute 512 - 7.", "Sort the letters: d a c b"]
    rows = [json.dumps({"prompt": prompt, "id": number}) for number, prompt in enumerate(prompts)]
    (tmp_path / "prompts.jsonl").write_text("\n".join(rows) + "\n")
    out = tmp_path / "answers.jsonl"
    assert told(finished, "ask", RUN, "--in", str(tmp_path / "prompts.jsonl"), "--out", str(out)) == 0
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["id"] for row in found] == [0, 1] and all(row["flops"] > 0 for row in found)
    for prompt, row in zip(prompts, found, strict=True):
        capsys.readouterr()
        assert told(finished, "chat", RUN, "--prompt", prompt) == 0
        printed = capsys.readouterr()
        assert printed.out.strip() == row["answer"].strip()
        assert ("the bare host" if row["who"] == "host" else f"organelle {row['who']}") in printed.err
    assert told(finished, "ask", RUN, "--in", str(tmp_path / "prompts.jsonl"), "--out", str(out)) == 1
    assert "exists; name another file" in capsys.readouterr().err


def test_a_chat_goes_on_until_its_input_ends(
    finished: SimpleNamespace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told(finished, "chat", RUN, "--prompt", "Compute 512 - 7.") == 0
    alone = capsys.readouterr().out
    asked = ["Compute 512 - 7.", "", "a " * 3000, "Compute 512 - 7."]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(asked) + "\n"))
    assert told(finished, "chat", RUN) == 0
    printed = capsys.readouterr()
    assert printed.out == alone * 2  # the empty line is no prompt, and the one that is too long ends nothing
    assert printed.err.count("error: ") == 1 and "Ctrl-D ends" in printed.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"prompt": "a"}\n{"prompt": ""}\n', "prompts.jsonl:2: prompt: empty"),
        ('{"prompt": "a"}\nno json\n', "prompts.jsonl:2: not valid JSON"),
        ("\n", "has no prompts"),
        (json.dumps({"prompt": "a " * 3000}), "do not fit the host's"),
    ],
)
def test_a_faulty_file_of_prompts_is_one_line(
    text: str, words: str, finished: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "prompts.jsonl").write_text(text)
    out = tmp_path / "answers.jsonl"
    assert told(finished, "ask", RUN, "--in", str(tmp_path / "prompts.jsonl"), "--out", str(out)) == 1
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert words in line and not out.exists()


def test_an_organelle_and_a_router_that_are_not_there(
    finished: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, said in (
        (["--organelle", "999"], "not alive at the end"),
        (["--routing", "cell"], "has no such routes; choose from learned, single, an organelle"),
        (["--routing", "family"], "goes by more than the prompt; choose from learned, single, an organelle"),
    ):
        assert told(finished, "chat", RUN, "--prompt", "a", *words) == 1
        assert said in capsys.readouterr().err


def test_rows_that_state_their_families_may_be_routed_by_them(
    finished: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts, out = tmp_path / "prompts.jsonl", tmp_path / "answers.jsonl"
    prompts.write_text('{"prompt": "Compute 512 - 7.", "family": "rounded"}\n{"prompt": "a"}\n')
    words = ["ask", RUN, "--in", str(prompts), "--out", str(out), "--routing", "family"]
    assert told(finished, *words) == 1
    assert "goes by more than the prompt" in capsys.readouterr().err and not out.exists()
    prompts.write_text('{"prompt": "Compute 512 - 7.", "family": "rounded"}\n')
    assert told(finished, *words) == 0
    assert json.loads(out.read_text())["routed_as"] == "rounded"


def test_a_client_of_openai_talks_to_a_run(finished: SimpleNamespace) -> None:
    """The real client, over a real socket, to `evolora serve-run`; a wrong token is refused."""
    openai = pytest.importorskip("openai")
    environment = os.environ | {"EVOLORA_HOME": str(finished.home), "EVOLORA_TOKEN": "secret"}
    code = "from flows.cli import console; console()"
    command = [sys.executable, "-c", code, "serve-run", RUN, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=ROOT, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().rpartition(" ")[2].strip()
            client = openai.OpenAI(base_url=url, api_key="secret", max_retries=0)
            names = [model.id for model in client.models.list()]
            assert names[0] == RUN and names[-1] == f"{RUN}:host"
            asked: Any = {"model": RUN, "messages": [{"role": "user", "content": "Sort the letters: d a c b"}]}
            whole = client.chat.completions.create(**asked)
            pieces = list(client.chat.completions.create(**asked, stream=True))
            text = "".join(piece.choices[0].delta.content or "" for piece in pieces)
            assert text == whole.choices[0].message.content and pieces[-1].choices[0].finish_reason in (
                "stop",
                "length",
            )
            assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
            both = client.completions.create(model=f"{RUN}:host", prompt=["Compute 512 - 7.", "Compute 100 - 7."])
            assert [choice.evolora["who"] for choice in both.choices] == ["host", "host"]
            with pytest.raises(openai.NotFoundError, match="there is no model 'other'"):
                client.chat.completions.create(**asked | {"model": "other"})
            with pytest.raises(openai.BadRequestError, match="do not fit the host"):
                client.completions.create(model=RUN, prompt="a " * 3000)
            with pytest.raises(openai.BadRequestError, match="prompt 1: is empty"):
                client.chat.completions.create(model=RUN, messages=[{"role": "user", "content": " "}])
            with pytest.raises(openai.BadRequestError, match="at least 1 item") as fault:
                client.chat.completions.create(model=RUN, messages=[])
            assert fault.value.param == "messages"
            with pytest.raises(openai.NotFoundError, match="Not Found"):
                client.embeddings.create(model=RUN, input="a")
            with pytest.raises(openai.AuthenticationError):
                openai.OpenAI(base_url=url, api_key="guess", max_retries=0).models.list()
        finally:
            process.terminate()
    assert process.returncode == 0  # it ends in order


def test_others_may_not_ask_without_a_token(finished: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(finished, "serve-run", RUN, "--address", "0.0.0.0") == 1
    assert "set EVOLORA_TOKEN to a token" in capsys.readouterr().err


def test_from_python_it_is_the_same(finished: SimpleNamespace) -> None:
    from evolora_core.adapters import VIEWS, answer, load_run, tables

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVOLORA_HOME", str(finished.home))
        run = load_run(RUN)
        replies = answer(run, ["Compute 512 - 7.", "Sort the letters: d a c b"])
        (alone,) = answer(run.asking(run.organelles[0]), ["Compute 512 - 7."])
        for prompts, said in (("one text", "give a list of texts"), (["a", " "], "prompt 2: is empty")):
            with pytest.raises(ConfigError, match=said):
                answer(run, prompts)
        (stated,) = answer(RUN, ["Compute 512 - 7."], families=["string.sort"])
        with pytest.raises(ConfigError, match="families: give a list with one for each of the 2 prompts"):
            answer(RUN, ["a", "b"], families=["rounded"])
        frames = tables("own-tasks")
    assert [reply.prompt for reply in replies] == ["Compute 512 - 7.", "Sort the letters: d a c b"]
    assert stated.family == "string.sort"
    assert alone.who == run.organelles[0] and alone.family == ""
    assert set(frames) == {*VIEWS} and len(frames["paper_table"]) == 3


def test_all_that_lives_is_written_for_peft_with_its_router(finished: SimpleNamespace, tmp_path: Path) -> None:
    from peft import AutoPeftModelForCausalLM

    assert told(finished, "export", RUN, "--all", "--out", str(tmp_path / "all")) == 0
    folders = sorted(path.name for path in (tmp_path / "all").iterdir() if path.is_dir())
    router = json.loads((tmp_path / "all" / "router.json").read_text())
    assert folders and {*router["table"]} == {"rounded", "string.sort"} and router["routing"] == "learned"
    named = {who for who in (*router["table"].values(), router["other"]) if who != "host"}
    assert {f"organelle-{who}" for who in named} <= {*folders}
    for folder in folders:
        AutoPeftModelForCausalLM.from_pretrained(str(tmp_path / "all" / folder))  # which finds the host
    assert len({path.stat().st_mode for path in (tmp_path / "all").rglob("*") if path.is_file()}) == 1
    card = (tmp_path / "all" / "README.md").read_text()
    assert "base_model: nano" in card and f'"{folders[0]}")' in card
    ranks = [json.loads((tmp_path / "all" / own / "adapter_config.json").read_text())["r"] for own in folders]
    (highest,) = re.findall(r"--max-lora-rank (\d+)", card)
    assert max(ranks) <= int(highest) and all(f"{own}={own}" in card for own in folders)


def test_a_merged_model_answers_as_host_and_adapter_do(
    finished: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from evolora_core.language.hosts.host import load_host

    assert told(finished, "export", RUN, "--merged", "--out", str(tmp_path / "model")) == 0
    assert told(finished, "export", RUN, "--out", str(tmp_path / "adapter")) == 0
    host = load_host("nano")
    ids = torch.tensor(host.encode_prompts(["Compute 512 - 7."]))
    assert len({path.stat().st_mode for path in (tmp_path / "model").iterdir()}) == 1
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model", local_files_only=True)
    assert AutoTokenizer.from_pretrained(tmp_path / "model", local_files_only=True).vocab_size
    with torch.no_grad():
        merged, plain = model(ids).logits, host.model(ids).logits.clone()
        adapted = PeftModel.from_pretrained(host.model, tmp_path / "adapter")(ids).logits
    assert torch.allclose(merged, adapted, atol=1e-4) and not torch.allclose(merged, plain, atol=1e-3)
    assert told(finished, "export", RUN, "--all", "--merged", "--out", str(tmp_path / "both")) == 1
    assert "leave --merged and --organelle out" in capsys.readouterr().err


def test_an_answer_of_the_store_is_a_parquet_file(
    finished: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pandas as pd

    sql, out = "SELECT condition, family, acc FROM accuracy ORDER BY ALL", tmp_path / "accuracy.parquet"
    assert told(finished, "sql", sql, "--format", "parquet", "--out", str(out)) == 0
    assert pd.read_parquet(out)["acc"].tolist() == [row[2] for row in query(finished.home, sql).rows]
    capsys.readouterr()
    for words, said in (
        (["--format", "parquet"], "needs it"),
        (["--format", "parquet", "--out", str(out)], "exists; name another file"),
        (["--format", "parquet", "--out", str(tmp_path / "none" / "a.parquet")], "cannot be written"),
    ):
        assert told(finished, "sql", sql, *words) == 1
        assert said in capsys.readouterr().err
