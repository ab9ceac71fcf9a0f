"""Prices where the bare host answers nothing."""

import dataclasses
import logging
from typing import Any

import pytest
from random_host import draw_items

from evolora_core.errors import StageError
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.hosts.host import load_host
from evolora_core.lora.answering.practice import Practice
from evolora_core.lora.answering.pricing import price

PRACTICE = Practice(
    answers=16, temperature=0.0, population=2, slots=3, rank=2, scale=2.0, batch_rows=4, break_even_accuracy=0.01
)


@pytest.fixture(scope="module")
def unanswerable() -> tuple[Any, list[Any]]:
    items = draw_items("math", 16, 0)
    return load_host("nano"), [dataclasses.replace(item, target=10**9 + n) for n, item in enumerate(items)]


def test_sampled_answers_of_which_none_is_right_are_refused(unanswerable: Any) -> None:
    host, items = unanswerable
    sampling = PRACTICE.model_copy(update={"temperature": 1.0})
    with pytest.raises(StageError, match="answered none of 16 training items correctly, so rewards cannot vary"):
        price(host, items, sampling, DecodingConfig(max_new_tokens=4, batch_rows=16), 0)


def test_a_search_may_find_what_greedy_answers_do_not(unanswerable: Any, caplog: pytest.LogCaptureFixture) -> None:
    host, items = unanswerable
    with caplog.at_level(logging.WARNING):
        prices = price(host, items, PRACTICE, DecodingConfig(max_new_tokens=4, batch_rows=16), 0)
    assert set(prices.accuracy.values()) == {0.0} and prices.unit_flops > 0
    assert "answered none of 16 training items correctly; where a search finds no right answer either" in caplog.text
