"""Right answers that can never be given are named before a run."""

import pytest

from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.base import Item
from evolora_core.language.hosts.host import Host
from evolora_core.lora.answering.longest import longest_right_answer


@pytest.mark.parametrize(
    ("stop_strings", "named"),
    [([], False), (["\n"], True), (["pass\n", "#"], False), (["return"], False)],
)
def test_right_answers_that_stop_strings_cut_are_named(
    stop_strings: list[str], named: bool, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    texts = ["def f():\n    pass", "x = 1"]
    items = [Item(f"Format {number}", text, "code.format", "short", "") for number, text in enumerate(texts)]
    decoding = DecodingConfig(stop_strings=stop_strings, max_new_tokens=64)
    assert longest_right_answer(host, "mine", items, None, decoding) == len(texts[0])
    said = "mine: 1 of its 2 right answers have a stop string within, such as "
    assert (said in caplog.text) == named == ("change decoding.stop_strings" in caplog.text)
