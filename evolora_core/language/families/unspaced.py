"""Chinese, Japanese and Korean put no blank between a word and the number or Latin letter beside it."""

import re

MARKS = "\u3002\uff0c\u3001\uff1a\uff1b\uff01\uff09"  # as . , , : ; ! ) of other scripts
_LETTERS = "[\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9f\U00020000-\U000323af]"
_LETTER = re.compile(_LETTERS)
_MINUS = re.compile("(?:[\u8d1f\u8ca0]|\u30de\u30a4\u30ca\u30b9|\ub9c8\uc774\ub108\uc2a4) ?(?=[0-9])")
# Ten, hundred, … a trillion, and the points of decimals; behind them `parts of`, as fractions are written.
MORE = "[\u5341\u767e\u5343\u4e07\u842c\u4ebf\u5104\u5146\u70b9\u9ede\u5272\uc2ed\ubc31\ucc9c\ub9cc\uc5b5\uc870]"
_MEETING = re.compile(
    f"(?<={_LETTERS})(?<![\u70b9\u9ede])(?<!\u5206[\u4e4b\u306e])(?=[-\u2212+]?[$\u20ac\u00a3]?\\.?[0-9A-Za-z])"
    f"|(?<=[0-9A-Za-z])(?={_LETTERS})(?!{MORE}|\u5206[\u4e4b\u306e]|\ubd84\uc758)"
)


def unspaced(character: str) -> bool:
    """Whether a character is a letter of these scripts: nothing tells whether a word ends at it."""
    return _LETTER.match(character) is not None


def spaced(text: str) -> str:
    """The text with a blank where these scripts meet Latin letters or figures, unless both together are another number
    (3\u4e07), and with a sign for a minus in words. All other text stays as it is.
    """
    return _MEETING.sub(" ", _MINUS.sub(" -", text))
