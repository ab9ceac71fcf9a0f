"""Shards: parts of a suite from different homes give the pack of the whole; what was made otherwise is named."""

import json
import shutil
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from example_suite import settings, write_suite

from evolora_core.engine.strict import document_hash
from evolora_core.errors import StoreError
from evolora_core.report import StoredSuite, build, verify
from evolora_core.searches.adapters.pack import sections
from evolora_core.searches.adapters.pack.sections import SECTIONS
from evolora_core.store import carried, fingerprints, merge, query, rebuild, record, store_path, write_shard
from evolora_core.store.connection import opened
from evolora_core.store.shards import _digest
from flows.cli import main

SEEDS = (0, 1, 2)
SUITE = f"example-{document_hash(settings('example', SEEDS, 48))}"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that ran everything."""
    home = tmp_path_factory.mktemp("whole")
    write_suite(home, SUITE, SEEDS, items=48)
    rebuild(home)
    return home


@pytest.fixture(scope="module")
def shards(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """What homes that ran a seed or two, or some conditions, would leave."""
    folder = tmp_path_factory.mktemp("shards")
    conditions = ("frozen", "single", "ecology", "sft")
    first = [(condition, seed) for seed in (0, 1) for condition in conditions[:2]]
    second = [(condition, seed) for seed in (0, 1) for condition in conditions[2:]]
    third = [(condition, 2) for condition in conditions]
    found = []
    for number, runs in enumerate((first, second, third)):
        assert write_shard(whole, SUITE, folder / str(number), [*runs, *(("data", seed) for _, seed in runs)])
        found.append(folder / str(number))
    return found


def _copy(shard: Path, to: Path, change: str, by: str, seeds: Collection[int] = SEEDS) -> Path:
    """A shard in whose manifests, of these seeds, a text is replaced."""
    shutil.copytree(shard, to)
    table = pq.read_table(to / "stages.parquet")
    assert any(change in text for text in table["manifest"].to_pylist())
    both = zip(table["manifest"].to_pylist(), table["seed"].to_pylist(), strict=True)
    manifests = pa.array([text.replace(change, by) if seed in seeds else text for text, seed in both])
    pq.write_table(
        table.set_column(table.schema.get_field_index("manifest"), "manifest", manifests), to / "stages.parquet"
    )
    return to


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    printed = capsys.readouterr()
    assert end.value.code == 0, printed.err
    return printed.out


def test_settings_have_to_be_those_of_the_id(shards: list[Path], tmp_path: Path) -> None:
    """Else Holm may correct for fewer comparisons than were declared."""
    strange = Path(shutil.copytree(shards[0], tmp_path / "strange"))
    (row,) = pq.read_table(strange / "suite.parquet").to_pylist()
    config = json.loads(row["config"]) | {"evaluation": {"comparisons": []}}
    pq.write_table(pa.Table.from_pylist([row | {"config": json.dumps(config)}]), strange / "suite.parquet")
    with pytest.raises(StoreError, match="suite.parquet: its settings are not those of example"):
        merge(tmp_path, [strange])
    named = row | {"suite": row["suite"].replace("example", "other")}
    pq.write_table(pa.Table.from_pylist([named]), strange / "suite.parquet")
    with pytest.raises(StoreError, match="its settings are not those of other-.*: they are example's"):
        merge(tmp_path, [strange])
    assert query(tmp_path, "SELECT count(*) FROM stages").rows == [(0,)]


@pytest.mark.parametrize("text", ["nonsense", "[1]", '{"identity_document": [1]}', '{"summary": {"comparable": 1}}'])
def test_a_manifest_that_is_none_is_told(shards: list[Path], tmp_path: Path, text: str) -> None:
    strange = Path(shutil.copytree(shards[0], tmp_path / "strange"))
    table = pq.read_table(strange / "stages.parquet")
    place = table.schema.get_field_index("manifest")
    pq.write_table(table.set_column(place, "manifest", pa.array([text] * len(table))), strange / "stages.parquet")
    (tmp_path / "home").mkdir()
    with pytest.raises(StoreError, match=r"stages.parquet: damaged \(.*\); ask for the shard anew"):
        merge(tmp_path / "home", [strange])


def test_a_file_that_grows_in_memory_is_refused(
    shards: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strange = Path(shutil.copytree(shards[0], tmp_path / "strange"))
    monkeypatch.setattr(carried, "LARGEST", 2**20)
    pq.write_table(pa.table({"x": ["a" * 100_000] * 100}), strange / "answers.parquet", compression="zstd")
    with pytest.raises(StoreError, match=r"answers.parquet: damaged \(takes more than 1 MiB"):
        carried.read(strange)


def test_shards_give_the_pack_of_the_whole(
    whole: Path, shards: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = replace(SECTIONS, plots={name: SECTIONS.plots[name] for name in ("frontier", "lineage")})
    monkeypatch.setattr(sections, "SECTIONS", few)  # plots take most of the time
    home = tmp_path / "home"
    monkeypatch.setenv("EVOLORA_HOME", str(home))
    assert "no seed is complete in every condition yet" in _run(capsys, "store", "merge", str(shards[0]))
    assert "0 stages came" in _run(capsys, "store", "merge", str(shards[0]))
    states = json.loads(_run(capsys, "status", "example", "--json"))
    assert states and {row["state"] for row in states} == {"merged"}
    assert {f"{SUITE}.{condition}.s1" for condition in ("frozen", "single")} <= {row["run"] for row in states}
    with pytest.raises(SystemExit):
        main(["retry"])  # a merge is no reason to compute all of it
    assert f"{SUITE}: came in shards, and no suite was begun" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["pack", "example", "--out", str(tmp_path / "early")])
    said = capsys.readouterr().err
    assert "bring them by `evolora store merge`" in said and "of this name there is also" not in said
    done = _run(capsys, "store", "merge", *map(str, shards[1:]))
    assert f"{SUITE}: complete seeds: 0-2; `evolora pack {SUITE}` packs them" in done
    _run(capsys, "pack", "example", "--out", str(tmp_path / "joined"))
    packs = build(whole, SUITE, tmp_path / "one", few), tmp_path / "joined"
    for file in sorted(packs[0].rglob("*")):
        other = packs[1] / file.relative_to(packs[0])
        if file.suffix in (".csv", ".md", ".png") or file.name in ("summary.json", "answers.parquet", "items.parquet"):
            assert file.read_bytes() == other.read_bytes(), file.name
    before, now = (json.loads((pack / "provenance.json").read_text()) for pack in packs)
    assert before["measured_with"] == now["measured_with"] and before["config"] == now["config"]
    assert [row for row in before["stages"] if row["stage"] != "compare"] == [
        row for row in now["stages"] if row["stage"] != "compare"
    ]
    assert verify(home, tmp_path / "joined", few) == []

    found = fingerprints(home, SUITE)
    store_path(home).unlink()
    assert "recorded 1 stages" in (said := _run(capsys, "store", "rebuild"))  # of the comparison, made here
    ((merged,),) = query(home, "SELECT count(*) FROM stages WHERE condition <> 'suite'").rows
    assert said.endswith(f" rows, and {merged} stages of merged shards\n")
    assert fingerprints(home, SUITE) == found


def test_an_item_is_the_same_in_a_run_of_this_home_and_in_a_shard(whole: Path, tmp_path: Path) -> None:
    """Seeds share items, as those of a holdout file; two were run here, and one came in a shard."""

    def ask_the_same(home: Path) -> Path:
        with opened(store_path(home)) as connection:
            connection.execute("UPDATE data.evaluations SET prompt = 'What is ' || split_part(task_id, '-', 3)")
        return home

    one = ask_the_same(Path(shutil.copytree(whole, tmp_path / "one")))
    write_shard(one, SUITE, tmp_path / "shard", [(own, 2) for own in ("frozen", "single", "ecology", "sft", "data")])
    two = tmp_path / "two"
    for stage in write_suite(two, SUITE, SEEDS, items=48):
        if stage.seed in (0, 1):
            record(two, stage)
    ask_the_same(two)
    merge(two, [tmp_path / "shard"])
    here, joined = (StoredSuite(home, SUITE) for home in (one, two))
    assert joined.prompts_of_other_seeds == here.prompts_of_other_seeds and joined.splits_of_shared_items
    assert joined.counted() == here.counted()


def test_a_seed_can_be_written_by_name(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EVOLORA_HOME", str(whole))
    _run(capsys, "store", "shard", "example", "--only", "s2", "--out", str(tmp_path / "s2"))
    stages = pq.read_table(tmp_path / "s2" / "stages.parquet")
    assert set(stages["seed"].to_pylist()) == {2} and stages.num_rows == 7 + 2  # two are of its data
    with pytest.raises(SystemExit):
        main(["store", "shard", "example", "--only", "s9", "--out", str(tmp_path / "s9")])
    assert "s9: example has no such seed; it has 0, 1, 2" in capsys.readouterr().err
    with pytest.raises(SystemExit):  # a digit to Python's isdigit, and no number
        main(["store", "shard", "example", "--only", "s²", "--out", str(tmp_path / "s9")])
    assert "s²: not a seed or run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "by", "named"),
    [
        ('"torch": "2.13.0"', '"torch": "2.12.0"', "differs in the library torch: 2.12.0 here, 2.13.0 in evaluate of"),
        ('"code": "cccccccccccccccc"', '"code": "d"', "differs in the code of evaluate: d here, cccccccccccccccc in"),
        (
            '"dtype": "float32"',
            '"dtype": "bfloat16"',
            'differs in the dtype of evaluations: "bfloat16" here, "float32"',
        ),
        ('"threads": 1', '"threads": 8', "differs in the host's threads: 8 here, 1 in"),
    ],
)
def test_what_was_made_otherwise_is_refused_in_a_line(
    shards: list[Path], tmp_path: Path, change: str, by: str, named: str
) -> None:
    other = _copy(shards[2], tmp_path / "other", change, by)
    with pytest.raises(StoreError) as error:
        merge(tmp_path, [shards[0], other])
    assert named in str(error.value) and str(other) in str(error.value) and "\n" not in str(error.value)
    assert query(tmp_path, "SELECT count(*) FROM stages").rows == [(0,)]  # all or none
    assert not (tmp_path / "shards").exists()


def test_a_shard_that_was_made_in_two_ways_is_refused(shards: list[Path], tmp_path: Path) -> None:
    """As where the code changed between two seeds; and it is no excuse for those that come later."""
    mixed = _copy(shards[0], tmp_path / "mixed", '"code": "cccccccccccccccc"', '"code": "d"', [1])
    with pytest.raises(StoreError, match=r"differs in the code of evaluate: .* here, .* s\d here; shards of one suite"):
        merge(tmp_path, [mixed])


@pytest.mark.parametrize("stage", ["datasets", "holdouts", "corpus"])
def test_what_seeds_are_asked_comes_from_the_same_settings(shards: list[Path], tmp_path: Path, stage: str) -> None:
    """Its rows are of each seed, and the file that they are drawn from is not."""
    named = [
        _copy(own, tmp_path / f"n{i}", '"stage": "datasets"', f'"stage": "{stage}"') for i, own in enumerate(shards)
    ]
    before = f'"stage": "{stage}"'
    for number, rows in enumerate("aab"):
        document = f'"identity_document": {{"config": {{"digest": "{rows}"}}}}, {before}'
        _copy(named[number], tmp_path / f"s{number}", before, document)
    merge(tmp_path, [tmp_path / "s0", tmp_path / "s1"])
    with pytest.raises(StoreError, match=f"differs in the settings of {stage}: .* here"):
        merge(tmp_path, [tmp_path / "s2"])


def test_runs_whose_stages_load_other_modules_are_joined(shards: list[Path], tmp_path: Path) -> None:
    """Two arms of one kind may learn by different rules: their code differs, and neither was made otherwise."""
    other = _copy(
        shards[2],
        tmp_path / "other",
        '"code": "cccccccccccccccc"',
        '"also": ["rules.another"], "code": "d"',
    )
    merge(tmp_path, [shards[0], other])
    assert query(tmp_path, "SELECT count(DISTINCT seed) FROM stages").rows[0][0] > 1


def test_what_belongs_to_a_seed_must_be_the_same_in_that_seed_alone(shards: list[Path], tmp_path: Path) -> None:
    for name in ("dataset", "holdouts", "corpus", "rates", "base"):  # each is another in every seed
        alike = [
            _copy(own, tmp_path / f"{name}{number}", '"dataset"', f'"{name}"') for number, own in enumerate(shards)
        ]
        (tmp_path / name).mkdir()
        merge(tmp_path / name, alike)
        assert query(tmp_path / name, "SELECT count(DISTINCT seed) FROM complete_seeds").rows == [(3,)]
    other = _copy(shards[1], tmp_path / "other", '"dataset": "d0', '"dataset": "x0')
    with pytest.raises(StoreError, match="differs in the dataset of evaluations with seed 0"):
        merge(tmp_path, [shards[0], other])


def test_the_same_stage_made_twice_must_be_the_same(shards: list[Path], tmp_path: Path) -> None:
    merge(tmp_path, [shards[1]])
    other = _copy(
        shards[1], tmp_path / "other", '"identity_document": {"code"', '"identity_document": {"seed": 7, "code"'
    )
    with pytest.raises(
        StoreError, match=r"evaluate of .* is not as in the store: identity_document.seed: null there, 7 here"
    ):
        merge(tmp_path, [other])
    slower = _copy(shards[1], tmp_path / "slower", '"summary": {}', '"summary": {"generation_seconds": 9}')
    assert merge(tmp_path, [slower]).stages == 0  # a time is no result
    richer = _copy(shards[1], tmp_path / "richer", '"summary": {}', '"summary": {"rho": 9}')
    with pytest.raises(StoreError, match="is not as in the store: summary.rho: null there, 9 here"):
        merge(tmp_path, [richer])


def test_a_stage_that_measured_nan_is_taken_twice(shards: list[Path], tmp_path: Path) -> None:
    """As where a specialist diverged."""
    once, again = (_copy(shards[1], tmp_path / name, '"summary": {}', '"summary": {"drift": NaN}') for name in "ab")
    assert merge(tmp_path, [once]).stages > 0 and merge(tmp_path, [again]).stages == 0


def test_a_shard_is_replaced_only_by_a_whole_one(whole: Path, shards: list[Path], tmp_path: Path) -> None:
    out = Path(shutil.copytree(shards[0], tmp_path / "out"))
    with pytest.raises(StoreError, match="no such suite"):
        write_shard(whole, "other-0a1b2c3d", out)
    with pytest.raises(StoreError, match="the store has no stage of these runs"):
        write_shard(whole, SUITE, out, [("nope", 0)])
    assert {file.name for file in out.iterdir()} == {file.name for file in shards[0].iterdir()}
    assert {("sft", 2)} < {*write_shard(whole, SUITE, out)}
    assert set(pq.read_table(out / "stages.parquet")["seed"].to_pylist()) == {0, 1, 2}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    measured = tmp_path / "measured"
    measured.mkdir()
    (measured / "measured.parquet").write_text("mine")
    with pytest.raises(StoreError, match="holds something that is not a shard"):
        write_shard(whole, SUITE, measured)


def test_what_the_store_has_of_a_shard_is_kept_whole(shards: list[Path], tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "shards").write_text("in the way")
    with pytest.raises(OSError):
        merge(home, [shards[0]])
    assert query(home, "SELECT count(*) FROM stages").rows == [(0,)]  # none that a rebuild would lose
    (home / "shards").unlink()
    taken = home / "shards" / SUITE / _digest(shards[1])
    taken.parent.mkdir(parents=True)
    taken.write_text("in the way of the second")
    with pytest.raises(OSError):
        merge(home, shards[:2])
    assert [*taken.parent.iterdir()] == [taken]  # a rebuild would load what was refused
    taken.unlink()
    merge(home, [shards[0]])
    (copy,) = (home / "shards" / SUITE).iterdir()
    (copy / "stages.parquet").unlink()
    (copy.parent / ".cut").mkdir()  # what a kill leaves
    merge(home, [shards[0]])
    assert {file.name for file in copy.iterdir()} == {file.name for file in shards[0].iterdir()}
    assert rebuild(home).left_out == []


def test_a_shard_whose_stages_were_made_here_since_keeps_no_rebuild(shards: list[Path], tmp_path: Path) -> None:
    """By newer code; where only some of them were, the mend that is told works."""
    merge(tmp_path, [shards[2]])  # of seed 2
    write_suite(tmp_path, SUITE, SEEDS, items=48)
    for manifest in tmp_path.glob("runs/*/*/evaluate/*/manifest.json"):
        manifest.write_text(manifest.read_text().replace("cccccccccccccccc", "newer"))
    assert rebuild(tmp_path).left_out == []
    code = "SELECT DISTINCT json_extract_string(manifest, '$.identity_document.code') FROM stages WHERE stage = ?"
    assert query(tmp_path, code, ["evaluate"]).rows == [("newer",)]
    (entry,) = tmp_path.glob("runs/*/index/*/sft-s2.evaluate.json")
    entry.unlink()
    ((_, why),) = rebuild(tmp_path).left_out
    (kept,) = (tmp_path / "shards" / SUITE).iterdir()
    assert f"remove {kept}, then" in why and "\n" not in why
    shutil.rmtree(kept)
    assert rebuild(tmp_path).left_out == []


@pytest.mark.parametrize(
    ("name", "config"), [("../elsewhere-0a1b2c3d", None), ("example-0a1b2c3d", "{}"), ("example-0a1b2c3d", "{")]
)
def test_a_shard_that_names_no_suite_writes_nowhere(
    shards: list[Path], tmp_path: Path, name: str, config: str | None
) -> None:
    strange = Path(shutil.copytree(shards[0], tmp_path / "strange"))
    row = pq.read_table(strange / "suite.parquet").to_pylist()[0]
    changed = row | {"suite": name} | ({} if config is None else {"config": config})
    pq.write_table(pa.Table.from_pylist([changed]), strange / "suite.parquet")
    home = tmp_path / "home"
    home.mkdir()
    with pytest.raises(StoreError, match=r"suite.parquet: damaged: it names no suite"):
        merge(home, [strange])
    assert not [*tmp_path.glob("**/suite.json")] and not (home / "shards").exists()


@pytest.mark.parametrize(("column", "word"), [("condition", "/../../escaped"), ("stage", "../evaluate")])
def test_no_condition_or_stage_is_a_path(shards: list[Path], tmp_path: Path, column: str, word: str) -> None:
    """Folders are named after them."""
    strange = Path(shutil.copytree(shards[0], tmp_path / "strange"))
    table = pq.read_table(strange / "stages.parquet")
    names = pa.array([word, *table[column].to_pylist()[1:]])
    pq.write_table(table.set_column(table.schema.get_field_index(column), column, names), strange / "stages.parquet")
    with pytest.raises(StoreError, match=rf"stages.parquet: damaged: '{word}' is no {column}"):
        merge(tmp_path / "home", [strange])


def test_settings_of_no_suite_are_refused_before_anything_is_merged(
    shards: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    strange = Path(shutil.copytree(shards[0], tmp_path / "strange"))
    (row,) = pq.read_table(strange / "suite.parquet").to_pylist()
    config = json.loads(row["config"])
    del config["data"]
    changed = row | {"suite": f"example-{document_hash(config)}", "config": json.dumps(config)}
    pq.write_table(pa.Table.from_pylist([changed]), strange / "suite.parquet")
    monkeypatch.setenv("EVOLORA_HOME", str(tmp_path / "home"))
    with pytest.raises(SystemExit) as end:
        main(["store", "merge", str(shards[1]), str(strange)])
    said = capsys.readouterr().err
    assert end.value.code == 1 and f"{strange / 'suite.parquet'}:" in said and "'data' is missing" in said
    assert not (tmp_path / "home" / "shards").exists() and not store_path(tmp_path / "home").exists()


def test_what_is_no_shard_is_told(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="has no stages.parquet, so it holds no rows of a suite"):
        merge(tmp_path, [tmp_path])
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(StoreError, match="holds something that is not a shard"):
        write_shard(whole, SUITE, tmp_path)
