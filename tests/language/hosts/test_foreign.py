"""Folders as other people leave them: weights that are packed, a tokenizer with more tokens than its model."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from evolora_core.errors import HostError
from evolora_core.language.hosts.host import load_host


@pytest.fixture
def folder(tiny_folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(tiny_folder, tmp_path / "changed"))


def _fault(path: Path) -> str:
    with pytest.raises(HostError) as caught:
        load_host(str(path))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_packed_weights_are_named(folder: Path) -> None:
    path = folder / "config.json"
    packed = {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | packed), encoding="utf-8")
    file = folder / "model.safetensors"
    shrunk = {name: tensor.flatten()[::8].contiguous() for name, tensor in load_file(file).items()}
    save_file(shrunk, file, metadata={"format": "pt"})
    assert "config.json: quantization_config: its weights are packed, " in (message := _fault(folder))
    assert "save the model dequantised" in message


def test_a_padding_token_that_the_model_lacks_is_not_used(tiny_folder: Path, folder: Path) -> None:
    """As one that was added to a tokenizer whose model was never resized."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    usual = load_host(str(tiny_folder))
    assert tokenizer.pad_token_id >= usual.model.get_input_embeddings().num_embeddings
    tokenizer.save_pretrained(folder)
    host = load_host(str(folder))
    assert host.pad_id == host.template.end and host.tokenizer.pad_token_id is None
    assert host.encode_prompts(["2 + 2"]) == usual.encode_prompts(["2 + 2"])
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 9999}))
    assert "token id 9999 is not among the 356 of the model; correct eos_token_id" in _fault(folder)
