"""How the final answer is read out of free text: one deterministic rule for each type of answer.

The same steps serve every type, and none reads what a model thinks before it answers:

1. If the text has a fenced code block, its content (the last block's) is the text.
2. Else, if it says `answer:`, `answer is` or `answer =`, the rest of that line is the text (the last such mark; the
   next line where nothing follows the mark).
3. If the first line is an answer and nothing else, it is the answer.
4. Otherwise the last thing of the type in the text is the answer.

The gold target is never looked at, so an answer that lists several candidates does not get to choose.
"""

import json
import re
from typing import Any

# Behind the marks that open it stands the name of a language or nothing; so a span in such marks (```f```:) opens none.
_FENCE = re.compile(r"```[ \t]*(?:\w[\w+#.-]*(?:[ \t][^\n`]*)?)?\n(.*?)(?:```|\Z)", re.DOTALL)
# Stars right behind the mark close its own bold print; those before the answer are the answer's.
MARK = re.compile(r"\banswer\b\**\s*(?:is\b|[:=])\**[\s:]*", re.IGNORECASE)
_PATTERN_MARK = re.compile(r"\b(?:answer|pattern|regex)\b\**\s*(?:is\b|[:=])\**[ \t:]*", re.IGNORECASE)

_VERDICT = re.compile(r"(\bnot\s+|n['\u2019]t\s+)?\b(true|false|yes|no)\b", re.IGNORECASE)
_OPENING_VERDICT = re.compile(r"(true|false|yes|no)(?:\s*(?:[.,:;!\n\u2014]|$)|\s+[-\u2013]\s)", re.IGNORECASE)

_ARRAY = re.compile(r"\[[^\[\]]*\]")
_OPENING_ARRAY = re.compile(r"[`*]*(\[[^\[\]]*\])[`*.,;:!]*(?:\n|\Z)")
_INLINE_FENCE = re.compile(r"```([^`\n]+)```")
_INLINE_CODE = re.compile(r"`([^`\n]+)`")
_WRAPPING = "`*\"'\u2018\u2019\u201c\u201d"
PUNCTUATION = _WRAPPING + ".,:;!?()[]{}$ "


def spoken(answer: str) -> str:
    """An answer without what is thought before it, up to `</think>`; a prompt may have opened the thought. A thought
    without an end is no answer.
    """
    thought, ended, said = answer.partition("</think>")
    return said if ended else "" if thought.lstrip().startswith("<think>") else answer


def final_lines(answer: str, mark: re.Pattern[str] = MARK, *, several: bool = False) -> list[str]:
    """Steps 1 and 2: the stripped, non-empty lines in which the final answer is looked for. With `several` an answer
    may have more than the line of its mark.
    """
    lines, marked = marked_lines(answer, mark)
    return lines[:1] if marked and not several else lines


def marked_lines(answer: str, mark: re.Pattern[str]) -> tuple[list[str], bool]:
    """The lines of `final_lines`, with all behind the line of the mark, and whether there is a mark."""
    answer = spoken(answer)
    fences = _FENCE.findall(answer)
    if fences:
        return _lines(fences[-1]), False
    marks = list(mark.finditer(answer))
    return _lines(answer[marks[-1].end() :] if marks else answer), bool(marks)


def extract_boolean(answer: str) -> bool | None:
    """The verdict of an answer, true/yes or false/no as whole words: the one that the text opens with, if punctuation
    or the end of the line follows it (`No, because …`), else the last one (`TRUE AND FALSE is False`), which `not`
    right before it turns round (`it is not true`). None if there is none."""
    text = "\n".join(final_lines(answer)).lstrip(_WRAPPING)
    opening = _OPENING_VERDICT.match(text)
    verdicts = [("", opening.group(1))] if opening else _VERDICT.findall(text)
    if not verdicts:
        return None
    negated, verdict = verdicts[-1]
    return (verdict.lower() in ("true", "yes")) != bool(negated)


def _alone(line: str) -> bool:
    """Whether a line is one word and no exclamation or lead-in (`Sure!`, `Answer:`)."""
    return len(line.split()) == 1 and line.rstrip("*\"'")[-1:] not in ("!", ":", ",", "?")


def extract_word(answer: str) -> str | None:
    """One word without blanks, quotes and final punctuation taken off: a first line of one word; else, in the last
    line, the last span in back-ticks or the last word."""
    lines = final_lines(answer)
    if not lines:
        return None
    if _alone(lines[0]):
        word = lines[0]
    else:
        spans = _INLINE_CODE.findall(lines[-1])
        word = spans[-1] if spans else lines[-1].split()[-1]
    return word.strip(PUNCTUATION) or None


def extract_snippet(answer: str) -> list[str]:
    """The lines of an answer that is code: those of the last fenced block, else of the whole text, which may be in a
    pair of back-ticks or behind one blank, as plain prompt forms put it. Steps 2 to 4 do not apply: `answer = 3` may be
    a line of the code.
    """
    answer = spoken(answer)
    fences = _FENCE.findall(answer)
    inline = _INLINE_FENCE.fullmatch(answer.strip()) or _INLINE_CODE.fullmatch(answer.strip())
    return snippet_lines(fences[-1] if fences else inline[1] if inline else re.sub(r"\A (?=\S)", "", answer))


def snippet_lines(code: str) -> list[str]:
    """Lines of code without the blanks at their ends and the empty lines around them."""
    lines = [line.rstrip() for line in code.split("\n")]
    filled = [number for number, line in enumerate(lines) if line]
    return lines[filled[0] : filled[-1] + 1] if filled else []


def extract_letters(answer: str) -> str | None:
    """A string of letters, written together or apart (`a a b` or `a, a, b` is `aab`): a first line of nothing else;
    else, in the last line, the letters that stand apart at its end, or its last word."""
    lines = final_lines(answer)
    if not lines:
        return None
    first, last = _parts(lines[0]), _parts(lines[-1])
    if _alone(lines[0]) or all(len(part) == 1 for part in first):
        return "".join(first) or None
    apart = len(last)
    while apart > 0 and len(last[apart - 1]) == 1:
        apart -= 1
    return "".join(last[apart:]) if len(last) - apart > 1 else last[-1] or None


def extract_array(answer: str, *, anywhere: bool = True) -> list[Any] | None:
    """A JSON array: the whole text, else the one with which the text begins and that ends its line; else, with
    `anywhere`, the last span from `[` to the next `]` that is one, behind the mark of step 2 or where none is there.
    """
    for text in ("\n".join(final_lines(answer, several=True)), spoken(answer)):
        opening, spans = _OPENING_ARRAY.match(text), _ARRAY.findall(text) if anywhere else []
        for candidate in (text, opening[1] if opening else "", spans[-1] if spans else ""):
            try:
                value = json.loads(candidate, parse_constant=_no_constant)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, list):
                return value
    return None


def extract_pattern(answer: str) -> str | None:
    """A regular expression: the first line of the text, or its last span in back-ticks, without the wrapping of stars,
    quotes, r"…" or /…/. The mark of step 2 may also be `pattern:` or `regex:`; the full stop that ends such a sentence
    is no part of the pattern.
    """
    fenced = _FENCE.search(answer) is not None
    lines = final_lines(answer, _PATTERN_MARK)
    if not lines:
        return None
    spans = [] if fenced else _INLINE_CODE.findall("\n".join(lines))
    text = spans[-1].strip() if spans else lines[0]
    if not spans and not fenced and _PATTERN_MARK.search(answer) and text.endswith(".") and not text.endswith("\\."):
        text = text[:-1]
    for opening, closing in (("**", "**"), ('r"', '"'), ("r'", "'"), ('"', '"'), ("'", "'"), ("/", "/")):
        if len(text) > len(opening) + len(closing) and text.startswith(opening) and text.endswith(closing):
            return text[len(opening) : -len(closing)]
    return text


def same_json(a: Any, b: Any) -> bool:
    """Equality of JSON values; unlike Python's, `true` is not 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_json, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_json(a[key], b[key]) for key in a)
    return bool(a == b)


def _parts(line: str) -> list[str]:
    return [part.strip(PUNCTUATION) for part in re.split(r"[\s,]+", line.strip(PUNCTUATION))]


def _lines(text: str) -> list[str]:
    return [stripped for line in text.splitlines() if (stripped := line.strip())]


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
