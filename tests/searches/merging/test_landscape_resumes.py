"""A landscape that was killed goes on from its last commit, and its tables are those of one that was not."""

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_merges import character_host, moved

from evolora_core.engine.identity import host_files_hash
from evolora_core.engine.run_index import SuiteId
from evolora_core.engine.stage import HostUse, Suite, Work
from evolora_core.engine.tables import read_table
from evolora_core.language.hosts.host import load_host
from evolora_core.searches.merging.experiment import MergeExperiment
from evolora_core.searches.merging.settings import Domain
from evolora_core.searches.merging.stages import datasets, landscape, measuring


def works(folder: Path) -> Any:
    """What gives the work of a shard, of two parents of two layers, in a folder of a name."""
    host = character_host(folder / "base", "qwen3", num_hidden_layers=2)
    inputs = {"base": folder / "nothing", "datasets": folder / "items"}
    domains = {"math": Domain(families=["math"])}
    for seed, name in enumerate("ab", 1):
        inputs[f"parent-{name}"] = folder / name
        moved(load_host(str(folder / "base")).model, seed).save_pretrained(folder / name / "model")
        host.tokenizer.save_pretrained(folder / name / "model")
    config = MergeExperiment.model_validate(
        {"name": "map", "domains": domains, "models": {"a": "a", "b": "b"}, "conditions": ["base", "uniform"]}
        | {"data": {"search": 8, "selection": 4, "test": 4}}
        | {"evaluation": {"comparisons": [{"a": "uniform", "b": "base"}]}}
    )
    asked: Any = datasets.request(Suite(config, SuiteId("map", "0" * 8)), 0).config
    inputs["datasets"].mkdir()
    datasets.make(Work(config=asked, seed=0, folder=inputs["datasets"]))
    use = HostUse(str(folder / "base"), "cpu", "float32", 1, host_files_hash(folder / "base"), {})
    own = landscape.Shard(parents=["a", "b"], domains=domains, shard=0, shards=1)

    def work(name: str) -> Work[Any]:
        (folder / name).mkdir(exist_ok=True)
        return Work(config=own, host=use, seed=0, folder=folder / name, inputs=inputs)

    return work


def test_a_killed_landscape_ends_as_if_nothing_had_been(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, plain, asked = works(tmp_path), landscape._row, []
    monkeypatch.setattr(measuring, "TOGETHER", 7)
    landscape.make(work("whole"))

    def killed(*given: Any) -> dict[str, Any]:
        asked.append(given)
        if len(asked) == 10:
            raise KeyboardInterrupt
        return plain(*given)

    monkeypatch.setattr(landscape, "_row", killed)
    with pytest.raises(KeyboardInterrupt):
        landscape.make(work("killed"))
    landscape.make(work("killed"))
    one, two = (read_table(tmp_path / name, "landscape") for name in ("whole", "killed"))
    assert json.dumps(one) == json.dumps(two) and len(one) == 24 and len(asked) == 10 + 24 - 7
    spent = [
        [{key: row[key] for key in row if key != "seconds"} for row in read_table(tmp_path / name, "compute")]
        for name in ("whole", "killed")
    ]
    assert spent[0] == spent[1] and any(row["executed_flops"] < row["flops"] for row in spent[0])
