"""Loading hosts, their identity and templates, and the errors that users can mend."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, normalizers
from tokenizers.processors import TemplateProcessing
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    BertConfig,
    BertModel,
    PreTrainedTokenizerFast,
)

from evolora_core.engine.artifacts import sha256
from evolora_core.errors import HostError
from evolora_core.language.hosts.catalog import HostPlace
from evolora_core.language.hosts.description import TemplateDescription
from evolora_core.language.hosts.host import load_host
from evolora_core.language.hosts.template import PromptTemplate, ending_id
from evolora_core.lora.answering.stopping import endings


@pytest.fixture
def folder(tiny_folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(tiny_folder, tmp_path / "damaged"))


def test_a_host_is_frozen_and_says_who_it_is(tiny_folder: Path) -> None:
    host = load_host(str(tiny_folder))
    assert not host.model.training and not any(p.requires_grad for p in host.model.parameters())
    assert host.identity == {
        "name": "tiny",
        "weights_sha256": sha256(tiny_folder / "model.safetensors"),
        "tokenizer_sha256": host.identity["tokenizer_sha256"],
        "template_sha256": host.identity["template_sha256"],
        "parameters": sum(p.numel() for p in host.model.parameters()),
        "dtype": "float32",
        "device": "cpu",
    }
    assert host.identity == load_host(str(tiny_folder)).identity
    assert (host.eos_ids, host.pad_id, host.max_context) == ((1,), 0, 256)


def test_identity_follows_weights_and_template_and_nothing_else(tiny_folder: Path, folder: Path) -> None:
    before = load_host(str(tiny_folder)).identity
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"] += 1
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "chat_template.jinja").write_text("{{ messages[0]['content'] }}", encoding="utf-8")
    after = load_host(str(folder)).identity
    assert {key for key in before if before[key] != after[key]} == {"name", "weights_sha256", "template_sha256"}


def test_chat_template_is_used_where_there_is_one(tiny_folder: Path) -> None:
    host = load_host(str(tiny_folder))
    (prompt,), (answer,) = host.encode_prompts(["2 + 2"]), host.encode_answers(["4"])
    assert host.tokenizer.decode(prompt + answer) == "<|user|>2 + 2<|assistant|>4<|end|>"
    assert host.decode([*answer, host.pad_id]) == "4"
    assert host.encode_prompts([]) == host.encode_answers([]) == []
    (shown, bare) = host.encode_prompts(["2 + 2", "2 + 2"], [[("1 + 1", "2")], []])
    assert host.tokenizer.decode(shown) == "<|user|>1 + 1<|assistant|>2<|end|><|user|>2 + 2<|assistant|>"
    assert bare == prompt


def _with_templates(folder: Path, **templates: str) -> None:
    """Several named templates in the place of one, as tokenizer_config.json lists them."""
    (folder / "chat_template.jinja").unlink()
    path = folder / "tokenizer_config.json"
    listed = [{"name": name, "template": template} for name, template in templates.items()]
    document = json.loads(path.read_text(encoding="utf-8")) | {"chat_template": listed}
    path.write_text(json.dumps(document), encoding="utf-8")


@pytest.mark.parametrize("chat", [True, False])
def test_what_looks_like_a_special_token_stays_text_in_a_prompt(tiny_folder: Path, chat: bool) -> None:
    """Or a row or a client would end the turn in the middle of its question; gold answers have been text before."""
    host = load_host(str(tiny_folder))
    host.tokenizer.chat_template = host.tokenizer.chat_template if chat else None
    marks = [str(token) for token in host.tokenizer.added_tokens_decoder.values() if token.special]
    special = {*host.tokenizer.all_special_ids, *(host.tokenizer.convert_tokens_to_ids(mark) for mark in marks)}

    def specials(prompt: str, examples: Any = ()) -> list[int]:
        (ids,) = host.encode_prompts([prompt], [examples])
        return [token for token in ids if token in special]

    odd = "Say ".join(marks)
    assert specials(odd) == specials("Say")
    assert specials("x", [("y", odd)]) == specials("x", [("y", "z")])
    (ids,) = host.encode_prompts([odd])
    assert odd in host.decode(ids)


def test_an_answer_has_no_token_that_ends_it(folder: Path) -> None:
    """Also where the token that ends a turn is not the tokenizer's own end, as Gemma's."""
    other = load_host(str(folder)).tokenizer
    ends = other.convert_tokens_to_ids(other.eos_token)
    config = (
        json.loads((folder / "generation_config.json").read_text())
        if (folder / "generation_config.json").exists()
        else {}
    )
    (folder / "generation_config.json").write_text(json.dumps(config | {"eos_token_id": [ends, 5]}))
    host = load_host(str(folder))
    assert 5 in host.eos_ids and host.decode([5]) == "" and host.decode([6, 5]) == host.decode([6])


def test_of_several_chat_templates_the_default_is_used(tiny_folder: Path, folder: Path) -> None:
    usual = load_host(str(tiny_folder))
    _with_templates(folder, tool_use="{{ 1 }}", default=(folder / "chat_template.jinja").read_text(encoding="utf-8"))
    host = load_host(str(folder))
    assert host.identity["template_sha256"] == usual.identity["template_sha256"]
    assert host.encode_prompts(["2 + 2"]) == usual.encode_prompts(["2 + 2"])


def test_several_chat_templates_without_a_default_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _with_templates(folder, tool_use="{{ 1 }}", rag="{{ 2 }}")
    said = "tokenizer_config.json: chat_template: has tool_use, rag and no default; call one of them default"
    assert said in (message := _fault(folder)) and str(folder) in message
    place = HostPlace("own", folder, TemplateDescription(), ready=True)  # a described host is not rehearsed
    monkeypatch.setattr("evolora_core.language.hosts.host.find_host", lambda name: place)
    assert said in _fault("own")


CHAT = (
    "{% for m in messages %}{{ '<s>' + m['role'] + '\n' + GAPm['content'] + '</s>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>assistant\n' }}{% endif %}"
)


def test_an_answer_has_the_tokens_that_it_has_behind_its_prompt() -> None:
    """Llama's tokenizer puts a blank before what begins a text."""
    letters = list(dict.fromkeys("▁Answer:0123456789Qustio?"))
    words = ["<unk>", "<s>", "</s>", *letters, *(f"<0x{byte:02X}>" for byte in range(256)), "▁▁"]
    vocabulary = {word: number for number, word in enumerate(words)}
    backend = Tokenizer(models.BPE(vocabulary, [("▁", "▁")], unk_token="<unk>", byte_fallback=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    template = PromptTemplate(tokenizer, TemplateDescription(), 2)
    joint = tokenizer("Question: 1?\nAnswer: 12", add_special_tokens=False)["input_ids"]
    assert template.encode_answers(["12"]) == [[*joint[-3:], 2]]
    for gap, length in (("", 3), ("' ' + ", 4)):  # Llama 2's template has a blank before what the assistant says
        tokenizer.chat_template = CHAT.replace("GAP", gap)
        turns = [{"role": "user", "content": "1?"}, {"role": "assistant", "content": "12"}]
        whole = tokenizer.apply_chat_template(turns, return_dict=False)
        assert template.encode_answers(["12"]) == [whole[-length:]]


def test_a_beginning_that_elsewhere_ends_texts_stays_before_what_looks_special(folder: Path) -> None:
    """OPT's, with a plain template."""
    tokenizer = load_host(str(folder)).tokenizer
    tokenizer.chat_template, tokenizer.bos_token = None, tokenizer.eos_token
    end = tokenizer.eos_token_id
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{tokenizer.eos_token} $A", special_tokens=[(tokenizer.eos_token, end)]
    )
    asked = PromptTemplate(tokenizer, TemplateDescription(), end).encode_prompts(["b a", f"b {tokenizer.eos_token} a"])
    assert [ids[0] for ids in asked] == [end, end] and end not in asked[1][1:]


def test_an_adapter_beside_a_model_is_refused(folder: Path) -> None:
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 1, "target_modules": ["q_proj"]}')
    assert "adapter_config.json: an adapter lies beside the model and would change it" in _fault(folder)


def test_plain_template_where_there_is_none(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    host = load_host(str(folder))
    (prompt,), (answer,) = host.encode_prompts(["{answer}?"]), host.encode_answers(["4<|end|>"])
    assert host.tokenizer.decode(prompt) == "Question: {answer}?\nAnswer:"
    assert endings(host, ["."]) == [".", "\nQuestion:"]  # a model goes on with a next one
    (shown,) = host.encode_prompts(["{answer}?"], [[("{prompt}", "4"), ("1?", "{prompt}")]])
    examples = "Question: {prompt}\nAnswer: 4\n\nQuestion: 1?\nAnswer: {prompt}\n\n"
    assert host.tokenizer.decode(shown) == examples + "Question: {answer}?\nAnswer:"
    assert host.decode(answer) == " 4<|end|>" and answer[-1] == host.eos_ids[0] and answer.count(host.eos_ids[0]) == 1


def test_a_tokenizer_that_closes_every_text_leaves_plain_prompts_open(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    asked = load_host(str(folder)).template.encode_prompts(["logic: and 1 0", "logic: or 1 0"])
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    end = tokenizer.eos_token
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"$A {end}", special_tokens=[(end, tokenizer.eos_token_id)]
    )
    tokenizer.save_pretrained(folder)
    host = load_host(str(folder))
    assert host.tokenizer("x")["input_ids"][-1] == tokenizer.eos_token_id
    assert host.template.encode_prompts(["logic: and 1 0", "logic: or 1 0"]) == asked


def test_a_context_in_which_rows_do_not_stand_alone_ends_before(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    whole = load_host(str(folder)).max_context
    half = config["head_dim"] // 2
    config["rope_parameters"] = {
        "rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": whole // 2,
        "long_factor": [2.0] * half, "short_factor": [1.0] * half,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    assert load_host(str(folder)).max_context == whole // 2


def test_a_host_file_may_set_the_chat_template_aside(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chatting = load_host(str(tiny_folder))
    usual = chatting.identity
    plain = TemplateDescription(chat=False, prompt="Q: 1\nA: one\n\nQ: {prompt}\nA:")
    place = HostPlace("shots", tiny_folder, plain, ready=True)
    monkeypatch.setattr("evolora_core.language.hosts.host.find_host", lambda name: place)
    host = load_host("shots")
    (prompt,), (answer,) = host.encode_prompts(["2"]), host.encode_answers(["two"])
    assert host.tokenizer.decode(prompt + answer) == "Q: 1\nA: one\n\nQ: 2\nA: two<|end|>"
    assert host.identity["template_sha256"] != usual["template_sha256"]
    assert endings(host, []) == ["\nQ:"] and endings(chatting, []) == []
    (shown,) = host.encode_prompts(["2"], [[("3", "three"), ("4", "four")]])  # in the place of its own
    assert host.tokenizer.decode(shown) == "Q: 3\nA: three\n\nQ: 4\nA: four\n\nQ: 2\nA:"


def test_thinking_is_switched_off(folder: Path) -> None:
    template = "{{ messages[0]['content'] }}{% if enable_thinking is defined and not enable_thinking %}!{% endif %}"
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    host = load_host(str(folder))
    assert host.tokenizer.decode(host.encode_prompts(["x"])[0]) == "x!"


def test_answers_end_as_the_chat_template_ends_them(tiny_folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    turn = tokenizer.convert_tokens_to_ids("<|user|>")
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}<|user|>{% endfor %}"
    assert isinstance(turn, int)
    assert ending_id(tokenizer, (tokenizer.eos_token_id, turn)) == turn
    assert ending_id(tokenizer, (tokenizer.eos_token_id,)) == turn  # a base model that was given a template
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
    assert ending_id(tokenizer, (tokenizer.eos_token_id,)) == tokenizer.eos_token_id


def test_a_template_may_put_eos_behind_the_end_of_a_turn(tiny_folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    turn = tokenizer.convert_tokens_to_ids("<|user|>")
    assert isinstance(turn, int)
    tokenizer.chat_template = (
        "{% for m in messages %}<|assistant|>{{ m['content'] }}<|user|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% else %}<|end|>{% endif %}"
    )
    assert ending_id(tokenizer, (tokenizer.eos_token_id, turn)) == turn != tokenizer.eos_token_id


def test_a_template_that_prints_the_date_prints_the_same_every_day(
    folder: Path,
) -> None:
    before = load_host(str(folder)).identity["template_sha256"]
    template = (
        "\n{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }} {% endif %}{{ messages[0]['content'] }}"
    )
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    host = load_host(str(folder))
    assert host.tokenizer.decode(host.encode_prompts(["x"])[0]) == "\n26 Jul 2024 x"
    assert host.identity["template_sha256"] != before and host.tokenizer.chat_template == template


def test_bfloat16(tiny_folder: Path) -> None:
    host = load_host(str(tiny_folder), dtype="bfloat16")
    assert host.dtype == torch.bfloat16 and {p.dtype for p in host.model.parameters()} == {torch.bfloat16}
    assert host.identity["dtype"] == "bfloat16"


def test_the_shipped_host_loads_by_name_and_without_our_code() -> None:
    host = load_host("nano")
    folder = Path(host.model.config._name_or_path)
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert sum(path.stat().st_size for path in folder.glob("*.safetensors")) <= 5_000_000
    assert host.max_context >= 1024 and 700_000 < host.identity["parameters"] < 1_300_000
    chat = [{"role": "user", "content": "Write in snake_case: PostList"}]
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    assert ids == host.encode_prompts([chat[0]["content"]])[0]
    made = model.generate(torch.tensor([ids]), max_new_tokens=16, do_sample=False)[0, len(ids) :]
    assert host.decode(made.tolist()) == "post_list"


def test_the_shipped_card_tells_the_shipped_weights() -> None:
    folder = Path(load_host("nano").model.config._name_or_path)
    assert sha256(folder / "model.safetensors") in (folder / "README.md").read_text(encoding="utf-8")


def _fault(path: Path | str, **options: str) -> str:
    with pytest.raises(HostError) as caught:
        load_host(str(path), **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_unknown_name_offers_the_nearest() -> None:
    assert "did you mean 'nano'" in _fault("nanno")
    assert "known: " in _fault("zzzzzz")


def test_folder_without_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert "no weights" in (message := _fault(folder)) and str(folder) in message
    (folder / "pytorch_model.bin").write_bytes(b"")
    assert "pytorch_model.bin, which is never unpickled" in _fault(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_folder_without_a_file_names_it(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert f"{folder}: {name} is missing" in _fault(folder)


def test_damaged_files_are_named(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{", encoding="utf-8")
    assert "tokenizer.json" in _fault(folder)
    (folder / "config.json").write_text("{", encoding="utf-8")
    assert "config.json" in _fault(folder)


def test_damaged_weights_are_named(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\x00" * 64)
    assert "model.safetensors" in _fault(folder)


def _with_tensors(folder: Path, **more: torch.Tensor) -> None:
    """Adds tensors to the weights; `__` stands for a dot."""
    file = folder / "model.safetensors"
    added = {name.replace("__", "."): tensor for name, tensor in more.items()}
    save_file(load_file(file) | added, file, metadata={"format": "pt"})


def test_weights_of_which_the_model_would_leave_out_some_are_refused(folder: Path) -> None:
    _with_tensors(folder, model__layers__0__self_attn__q_proj__bias=torch.ones(32))
    said = "model.safetensors: 1 tensors are not asked for by config.json, such as model.layers.0.self_attn.q_proj.bias"
    assert said in _fault(folder)


def test_a_model_cut_by_its_configuration_is_refused(folder: Path) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    cut = {"num_hidden_layers": 1, "layer_types": config["layer_types"][:1]}
    path.write_text(json.dumps(config | cut), encoding="utf-8")
    assert "tensors are not asked for by config.json, such as model.layers.1." in _fault(folder)


def test_a_copy_of_the_tied_head_and_old_constants_are_no_fault(tiny_folder: Path, folder: Path) -> None:
    head = load_file(folder / "model.safetensors")["model.embed_tokens.weight"]
    constants = {"model__layers__0__self_attn__rotary_emb__inv_freq": torch.ones(8)}
    masks = {"model__layers__0__attn__bias": torch.ones(1, 1, 4, 4), "model__layers__0__attn__masked_bias": head[0, 0]}
    _with_tensors(folder, lm_head__weight=head.clone(), **constants, **masks)
    found = load_host(str(folder))
    assert found.identity["parameters"] == load_host(str(tiny_folder)).identity["parameters"]


def test_not_a_causal_language_model(folder: Path) -> None:
    config: Any = BertConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, vocab_size=64
    )
    BertModel(config).save_pretrained(folder)
    data = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert data["model_type"] == "bert"
    (folder / "config.json").write_text(json.dumps(data | {"model_type": "clip_vision_model"}), encoding="utf-8")
    assert "not a causal language model" in _fault(folder)


def _kinds() -> dict[str, Any]:
    """Models of kinds that cannot be hosts as they are."""
    hybrid = {"num_attention_heads": 2, "num_key_value_heads": 1, "layer_types": ["conv", "full_attention"]}
    sizes: dict[str, dict[str, Any]] = {
        "lfm2": {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2} | hybrid,
        "mamba2": {"hidden_size": 32, "num_hidden_layers": 1, "num_heads": 4, "head_dim": 16, "n_groups": 1},
        "gpt2": {"n_embd": 32, "n_layer": 1, "n_head": 2},
        "bloom": {"hidden_size": 32, "n_layer": 1, "n_head": 2},
    }
    common = {"vocab_size": 400, "bos_token_id": 0, "eos_token_id": 1}
    configs = {kind: AutoConfig.for_model(kind, **own, **common) for kind, own in sizes.items()}
    return {kind: AutoModelForCausalLM.from_config(config) for kind, config in configs.items()}


def test_kinds_of_models_that_are_no_hosts_are_told_why(folder: Path) -> None:
    """No advice that cannot help, and none that fails first when it is asked."""
    said = {
        "lfm2": "Lfm2ForCausalLM has layers that are not plain attention (LinearAttentionLayer); name a decoder",
        "mamba2": "Mamba2ForCausalLM has layers that are not plain attention (LinearAttentionLayer); name a decoder",
        "gpt2": "GPT2LMHeadModel is made of Conv1D layers, not Linear ones; name a decoder",
        "bloom": "max_position_embeddings is missing; set it to the most tokens",
    }
    for name, model in _kinds().items():
        model.save_pretrained(folder)
        assert said[name] in _fault(folder)
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"max_position_embeddings": 64}), encoding="utf-8")
    assert load_host(str(folder)).max_context == 64


def test_unknown_dtype_and_device(tiny_folder: Path) -> None:
    assert "dtype 'int4'" in _fault(tiny_folder, dtype="int4")
    assert "device 'tpu9'" in _fault(tiny_folder, device="tpu9")
