"""Blanks where Chinese, Japanese and Korean meet figures and Latin letters, and nowhere else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolora_core.language.families.unspaced import spaced, unspaced


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("答案是B。", "答案是 B。"),
        ("一共有42个", "一共有 42 个"),
        ("GPUを使う", "GPU を使う"),
        ("답은42입니다", "답은 42 입니다"),
        ("是-3.5元", "是 -3.5 元"),
        ("是负3", "是 -3"),
        ("マイナス3です", " -3 です"),
        ("마이너스 3", " -3"),
        ("3万", "3万"),
        ("3点5", "3点5"),
        ("4分の3", "4分の3"),
        ("42分です", "42 分です"),
    ],
)
def test_where_a_blank_is_put(text: str, read: str) -> None:
    assert spaced(text) == read == spaced(read)


@given(st.text(st.characters(codec="ascii")) | st.text(st.characters(max_codepoint=0x2FFF)))
def test_text_of_other_scripts_stays(text: str) -> None:
    assert spaced(text) == text and not any(map(unspaced, text))


@given(st.text(st.sampled_from("答は답 。42-.$Bé負マ点分万之")))
def test_a_text_is_read_the_same_twice_and_loses_nothing(text: str) -> None:
    assert spaced(spaced(text)) == spaced(text)
    kept = spaced(text).replace(" ", "").replace("-", "").replace("負", "")
    assert kept == text.replace(" ", "").replace("-", "").replace("負", "")
