"""Any text survives the character tokenizer, in every way that it is loaded."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from evolora_core.language.hosts.tokenizer import VOCABULARY, build_tokenizer

TOKENIZER = build_tokenizer(context=256)


@given(st.text())
def test_round_trip_is_exact(text: str) -> None:
    ids = TOKENIZER(text, add_special_tokens=False)["input_ids"]
    assert TOKENIZER.decode(ids) == text


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_printable_ascii_is_one_id_a_character(text: str) -> None:
    ids = TOKENIZER(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert [VOCABULARY[token] for token in ids] == list(text)


def test_other_characters_are_their_bytes() -> None:
    ids = TOKENIZER("é", add_special_tokens=False)["input_ids"]
    assert [VOCABULARY[token] for token in ids] == ["<0xC3>", "<0xA9>"]


def test_text_that_spells_a_byte_token_stays_text() -> None:
    ids = TOKENIZER("<0x41>", add_special_tokens=False)["input_ids"]
    assert len(ids) == 6 and TOKENIZER.decode(ids) == "<0x41>"


def test_saved_tokenizer_loads_without_our_code(tiny_folder: Path) -> None:
    loaded = AutoTokenizer.from_pretrained(tiny_folder)
    assert loaded.chat_template == TOKENIZER.chat_template
    assert loaded("naïve 12\n")["input_ids"] == TOKENIZER("naïve 12\n")["input_ids"]
    assert (loaded.pad_token, loaded.eos_token) == ("<|pad|>", "<|end|>")


@pytest.mark.parametrize("field", ["pad_token_id", "eos_token_id"])
def test_special_ids_are_dropped_when_decoding(field: str) -> None:
    assert TOKENIZER.decode([getattr(TOKENIZER, field), *TOKENIZER("a")["input_ids"]], skip_special_tokens=True) == "a"
