"""Host folders, and prompts to a host."""

import json
import shutil
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hostile.conftest import accepted_or_refused, tried
from hostile.values import ANY, WORDS, as_json, garbled, spoilt
from hypothesis import given
from hypothesis import strategies as st
from random_host import random_host
from safetensors.torch import load_file, save

from evolora_core.errors import DataError
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.base import Item
from evolora_core.language.hosts.catalog import find_host
from evolora_core.language.hosts.host import load_host
from evolora_core.lora.answering.grading import answer_items

TEXTS = ("config.json", "generation_config.json", "tokenizer_config.json", "chat_template.jinja", "tokenizer.json")
TEMPLATES = st.one_of(
    st.sampled_from(
        [
            "",
            "{{",
            "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
            "{{ 'a' * 10 ** 10 }}",
            "{{ x.y.z }}",
        ]
        + [
            "{{ raise_exception('\x1b[31mno') }}",
            "{{ messages[9].content }}",
            "{{ messages | tojson }}",
            "{% include 'x' %}",
            "\ud800",
            "é",
        ]
        + [
            "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
            "{{ ().__class__.__mro__ }}",
            "{% set x = [1] %}{{ x.append(x) }}{{ x }}",
        ]
        + [
            "{{ 1 / 0 }}",
            "{{ messages[0]['content'] * 100000 }}",
            "{% generation %}",
            "{{ '%s' % 5 % 6 }}",
            "{{ none + 1 }}",
            "<|end|>",
        ]
    ),
    st.text("{}%|.[]()'a0*+ \n", max_size=30).map(lambda text: "{{ messages[0]['content'] }}" + text),
)

KINDS = st.sampled_from(
    ["llama", "bert", "t5", "gpt2", "gemma3_text", "whisper", "qwen3_moe", "mamba", "x", "clip", "gpt_neo"]
)
CHANGES: dict[str, Callable[[torch.Tensor], torch.Tensor | None]] = {
    "empty": lambda old: torch.zeros(0),
    "gone": lambda old: None,
    "half": lambda old: old.half(),
    "longer": lambda old: old[None],
    "negative": lambda old: -old,
    "not a number": lambda old: old * float("nan"),
    "shorter": lambda old: old[:-1],
    "whole numbers": lambda old: old.long(),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A good folder: its files, and where spoilt ones are put; the host that it holds."""
    good, bad = tmp_path_factory.mktemp("host"), tmp_path_factory.mktemp("spoilt")
    host = random_host(good)
    files = {path.name: path.read_bytes() for path in good.iterdir()}
    return SimpleNamespace(host=host, files=files, folder=bad, tensors=load_file(good / "model.safetensors"))


def test_a_host_folder(made: Any) -> None:
    @tried
    @given(damage=damages(made.files, sorted(made.tensors)))
    def survives(damage: Any) -> None:
        shutil.rmtree(made.folder)
        made.folder.mkdir()
        for name, content in (made.files | written(damage, made.tensors)).items():
            if content is not None:
                (made.folder / name).write_bytes(content)

        def use() -> list[str]:
            host = load_host(str(made.folder))
            return [outcome.answer for outcome in ask(host, ["1 + 1", "a" * 30])]

        accepted_or_refused(use)

    survives()


@st.composite
def damages(draw: st.DrawFn, files: Any, tensors: Any) -> Any:
    """What is done to a good folder: new contents of a file (None: it goes), or what becomes of a tensor."""
    how = draw(
        st.sampled_from(["document", "document", "document", "text", "template", "weights", "bytes", "gone", "kind"])
    )
    if how == "document":
        name = draw(st.sampled_from(TEXTS[:3] * 3 + TEXTS[4:]))
        return {name: as_json(draw(spoilt(json.loads(files[name])))).encode()}
    if how == "text":
        name = draw(st.sampled_from(TEXTS))
        text = draw(garbled(files[name].decode(), '[]{}":,\\u0-9 %'))
        return {name: text.encode("utf-8", "surrogatepass")}
    if how == "template":
        return {"chat_template.jinja": draw(TEMPLATES).encode("utf-8", "surrogatepass")}
    if how == "weights":
        tensor, change = draw(st.sampled_from(tensors)), draw(st.sampled_from(sorted(CHANGES)))
        return tensor, change, draw(st.sampled_from([tensor, "x", tensor + ".x"]))
    if how == "kind":
        return {"config.json": as_json(json.loads(files["config.json"]) | {"model_type": draw(KINDS)}).encode()}
    name = draw(st.sampled_from(sorted(files)))
    if how == "gone":
        return {name: None}
    raw, at = files[name], draw(st.integers(0, 400))
    return {name: raw[:at] + draw(st.binary(max_size=12)) + raw[at + draw(st.integers(0, 12)) :]}


def written(damage: Any, tensors: Any) -> Any:
    """The files that a damage changes."""
    if isinstance(damage, dict):
        return damage
    tensor, change, name = damage
    new = CHANGES[change](tensors[tensor])
    rest = {key: value for key, value in tensors.items() if key != tensor}
    put = {} if new is None else {name: new.contiguous()}
    return {"model.safetensors": save(rest | put, metadata={"format": "pt"})}


def ask(host: Any, prompts: Any) -> Any:
    """Short answers to prompts."""
    items = [Item(prompt, 2, "math", "short", str(number)) for number, prompt in enumerate(prompts)]
    return answer_items(host, None, items, [-1] * len(items), decoding=DecodingConfig(max_new_tokens=2))


@tried
@given(
    prompts=st.lists(
        st.one_of(WORDS, st.text(), st.text(st.characters(codec=None), max_size=30)), min_size=1, max_size=3
    )
)
def test_prompts(made: Any, prompts: Any) -> None:
    answers = accepted_or_refused(lambda: ask(made.host, prompts))
    halves = any(0xD800 <= ord(c) <= 0xDFFF for prompt in prompts for c in prompt)
    assert (answers is None) == halves
    for answer in answers or ():
        assert answer.grade.reason


@tried
@given(word=st.one_of(WORDS, st.text(), ANY.map(str)))
def test_a_host_by_name(word: str) -> None:
    if word not in ("/", "..", "."):
        accepted_or_refused(lambda: find_host(word))


def test_halves_of_characters_are_data_errors(made: Any) -> None:
    with pytest.raises(DataError, match="half a character"):
        made.host.encode_prompts(["\ud800"])
