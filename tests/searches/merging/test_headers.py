"""Rows and whole tensors, as numpy reads them from safetensors, are what torch reads."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from evolora_core.errors import HostError
from evolora_core.searches.merging.headers import read_headers

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


@settings(max_examples=80)
@given(st.lists(st.integers(0, 5), max_size=3), st.sampled_from(DTYPES), st.integers(1, 7), st.integers(0, 3))
def test_rows_are_those_of_torch(
    tmp_path_factory: pytest.TempPathFactory, shape: list[int], dtype: torch.dtype, step: int, before: int
) -> None:
    path = tmp_path_factory.mktemp("file") / "model.safetensors"
    own = torch.randn(shape).to(dtype)
    save_file({"a": torch.zeros(before, dtype=torch.uint8), "own": own, "z": torch.ones(3)}, path)
    found = read_headers(path.parent, [path])
    assert found.keys() == {"a", "own", "z"} and found["own"].shape == tuple(shape)
    rows = found["own"].rows(step)
    assert rows.dtype == np.float32 and np.array_equal(rows, np.atleast_1d(own.float().numpy())[::step])
    whole = torch.from_numpy(found["own"].read())
    assert torch.equal(whole.view(torch.bfloat16) if dtype == torch.bfloat16 else whole, own)


def test_every_number_of_16_bits_is_read_as_torch_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    own = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    save_file({"own": own}, path)
    assert np.array_equal(read_headers(tmp_path, [path])["own"].rows(1), own.float().numpy(), equal_nan=True)


def test_a_header_that_lies_is_told(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"own": torch.ones(8)}, path)
    path.write_bytes(path.read_bytes().replace(b"[0,32]", b"[0,99]"))
    with pytest.raises(HostError, match=r"model.safetensors: .*; save the weights anew") as error:
        read_headers(tmp_path, [path])
    assert "\n" not in str(error.value)
