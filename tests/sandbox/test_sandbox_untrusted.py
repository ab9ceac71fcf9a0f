"""What a child may leave under the name of a result."""

import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from evolora_core.sandbox.untrusted import Unreadable, read_array, read_bytes, read_json


def test_a_result(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"steps": 3}', encoding="utf-8")
    assert read_json(tmp_path / "result.json", 12) == {"steps": 3}
    logits = np.arange(6, dtype=np.float32).reshape(2, 3)
    (tmp_path / "logits").write_bytes(save({"logits": logits}))
    assert np.array_equal(read_array(tmp_path / "logits", "logits", (2, 3)), logits)


def test_no_plain_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "folder", "pipe", "missing"):
        with pytest.raises(Unreadable, match=name):
            read_bytes(tmp_path / name, 1000)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1]",
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b"\xff\xfe{}",
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a": ' + b"9" * 10_000 + b"}",
        b" " * 300_001,
    ],
)
def test_no_json(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "result.json").write_bytes(content)
    with pytest.raises(Unreadable, match="result.json"):
        read_json(tmp_path / "result.json", 300_000)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no tensors",
        b"\xff" * 16,
        save({"other": np.zeros((2, 3), np.float32)}),
        save({"logits": np.zeros((3, 2), np.float32)}),
        save({"logits": np.zeros((2, 3), np.float64)}),
        save({"logits": np.zeros((2, 3), np.float32), "ballast": np.zeros(1 << 21, np.uint8)}),
        (58).to_bytes(8, "little") + b'{"logits":{"dtype":"F32","shape":[2,3],"data_offsets":[0,9]}}'[:58],
    ],
)
def test_no_logits(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "logits").write_bytes(content)
    with pytest.raises(Unreadable, match="logits"):
        read_array(tmp_path / "logits", "logits", (2, 3))
