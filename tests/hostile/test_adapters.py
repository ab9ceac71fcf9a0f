"""Adapter folders."""

import json
from typing import Any

import pytest
import torch
from hostile.conftest import accepted_or_refused, tried
from hostile.values import ANY, NUMBERS, as_json, garbled, spoilt
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from tiny_models import tiny_host, tiny_population

from evolora_core.lora.population.peft_io import CONFIG, WEIGHTS, export_peft, import_peft


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A host, a folder with a good adapter for it, its files."""
    host, folder = tiny_host("qwen3"), tmp_path_factory.mktemp("adapter")
    export_peft(tiny_population(host, [4]).get(0), host, folder)
    config = json.loads((folder / CONFIG).read_text()) | {"alpha_pattern": {}, "rank_pattern": {}, "use_rslora": False}
    return host, folder, config, (folder / WEIGHTS).read_bytes(), load_file(folder / WEIGHTS)


PATTERNS = st.one_of(
    st.sampled_from(
        ["q_proj", ".*", "(", "(a+)+$", "(?:(?:.{99}){99}){99}", "(.*)*x", "a" * 2000, "(?R)", "\ud800", "", r"\L<a>"]
    ),
    st.text("()[]{}*+?|\\.aq_", max_size=20),
)
CHANGES = st.one_of(
    st.dictionaries(PATTERNS, NUMBERS, max_size=3).map(lambda given: {"alpha_pattern": given}),
    st.dictionaries(PATTERNS, NUMBERS, max_size=3).map(lambda given: {"rank_pattern": given}),
    st.builds(
        lambda key, value: {key: value},
        st.sampled_from(["r", "lora_alpha", "alpha_pattern", "peft_type", "use_rslora"]),
        ANY,
    ),
    st.builds(lambda value: {"target_modules": value}, st.one_of(PATTERNS, ANY)),
)


def test_an_adapter_that_is_not_spoilt_is_taken(made: Any) -> None:
    host, folder, *_ = made
    assert accepted_or_refused(lambda: import_peft(folder, host)).rank == 4


@tried
@given(data=st.data())
def test_an_adapter_folder(made: Any, data: st.DataObject) -> None:
    host, folder, config, raw, tensors = made
    how = data.draw(st.sampled_from(["changes", "changes", "spoilt", "garbled", "tensors", "bytes"]))
    text, content = as_json(config), raw
    if how == "changes":
        text = as_json(config | data.draw(CHANGES))
    elif how == "spoilt":
        text = as_json(data.draw(spoilt(config)))
    elif how == "garbled":
        text = data.draw(garbled(text, '[]{}":,\\u0-9 '))
    elif how == "bytes":
        at = data.draw(st.integers(0, len(raw)))
        content = raw[:at] + data.draw(st.binary(max_size=12)) + raw[at + data.draw(st.integers(0, 12)) :]
    else:
        name = data.draw(st.sampled_from(sorted(tensors)))
        old = tensors[name]
        new = data.draw(
            st.sampled_from(
                [
                    old * float("nan"),
                    old / 0,
                    old[:-1],
                    old[:, :-1],
                    old.T,
                    old.half(),
                    old.long(),
                    old.bool(),
                    old[0],
                    old[:0],
                ]
                + [old.double(), old.bfloat16(), torch.complex(old, old), old.reshape(1, *old.shape)]
            )
        )
        rest = {key: value for key, value in tensors.items() if key != name}
        names = [
            name,
            name + "x",
            "lora_A",
            name.replace("lora_A", "lora_B"),
            "base_model.model..lora_A.weight",
            "",
            "é",
        ]
        save_file(rest | {data.draw(st.sampled_from(names)): new.contiguous()}, folder / WEIGHTS)
        content = (folder / WEIGHTS).read_bytes()
    (folder / CONFIG).write_bytes(text.encode("utf-8", "surrogatepass"))
    (folder / WEIGHTS).write_bytes(content)
    adapter = accepted_or_refused(lambda: import_peft(folder, host))
    if adapter is not None:
        assert 1 <= adapter.rank <= 4096
        assert all(bool(torch.isfinite(adapter.delta(name)).all()) for name in adapter.A)
