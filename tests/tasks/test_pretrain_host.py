"""The task that trains a host of our own, with a tiny configuration in place of nano's."""

import re
from pathlib import Path

import pytest

from evolora_core.errors import ConfigError
from evolora_core.language.hosts.host import load_host
from evolora_core.language.hosts.pretrain_config import PretrainConfig
from tasks.pretrain_host import pretrain_host

TINY = {
    "seed": 0,
    "threads": 1,
    "architecture": {
        "hidden_size": 16,
        "layers": 1,
        "intermediate_size": 16,
        "heads": 2,
        "kv_heads": 1,
        "head_dim": 8,
        "context": 256,
    },
    "schedule": {"steps": 3, "rows": 4, "muon_learning_rate": 0.01, "adamw_learning_rate": 0.01},
    "mixture": {"code.format": {"short": 1}},
    "measurement": {"items_per_cell": 1, "max_new_tokens": 2},
}


def test_it_trains_into_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = PretrainConfig.model_validate(TINY)
    monkeypatch.setattr("evolora_core.language.hosts.pretrain_config.pretrain_config", lambda name: config)
    monkeypatch.setattr("tasks._progress.LOG_SECONDS", 0.0)
    with caplog.at_level("INFO", logger="evolora_core.stages"):
        done = pretrain_host.fn("little", str(tmp_path / "made"))
    assert re.search(
        r"pretrain little: 33 %, loss \d.*\n.*pretrain little: 67 %, about \d+ s left, loss \d", caplog.text
    )
    assert done["weights_sha256"] == load_host(str(tmp_path / "made")).identity["weights_sha256"]
    assert done["tokens"] > 0 and done["flops"] > 0


def test_files_of_the_user_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(ConfigError, match="holds something that is not a host of ours"):
        pretrain_host.fn("nano", str(tmp_path))
    assert [*tmp_path.iterdir()] == [tmp_path / "README.md"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("qwen3-0.6b", "configs/hosts/qwen3-0.6b.yaml: key 'pretrain': missing"),
        ("nanoo", r"host 'nanoo': there is no configs/hosts/nanoo.yaml \(did you mean 'nano'\?\)"),
    ],
)
def test_only_hosts_with_a_training_can_be_trained(name: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words):
        pretrain_host.fn(name, str(tmp_path / "made"))
