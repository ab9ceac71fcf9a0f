"""Regex answers: hostile and malformed patterns, and what each capability asks beyond the test strings."""

import re
import time

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from evolora_core.engine.rng import stream
from evolora_core.foreign.patterns import LONGEST
from evolora_core.language.families.base import Item
from evolora_core.language.families.matching import TIME_LIMIT, grade_pattern
from evolora_core.language.families.patterns import Choice, Literal, draw_segments, matches, pattern_of, sample
from evolora_core.language.families.regex_explanation import read_terms
from evolora_core.language.families.registry import get, grade
from evolora_core.language.families.variants import broken, draw_cases, draw_miss, loosened, near_miss, told_apart

CASES = [("aaa", True), ("b", False)]


@pytest.mark.parametrize("pattern", ["(a|aa)+$", "((a|a)*)*$", "(?:(?:(?:a{1,999}){1,999}){1,999}){1,999}"])
def test_a_hostile_pattern_is_stopped(pattern: str) -> None:
    start = time.monotonic()
    grading = grade_pattern(pattern, [("a" * 60 + "b", True)] * 20)
    assert time.monotonic() - start < 30 * TIME_LIMIT  # machines are slow at times
    assert grading.reason in ("timeout", "wrong")
    assert grading.score == 0.0


@pytest.mark.parametrize(
    "pattern", ["(", "*a", "a{99999999999}", "(?R)", "(?:a|(?1))(b)", "a" * (LONGEST + 1), "(" * 150, r"\L<x>"]
)
def test_what_is_no_pattern_is_malformed(pattern: str) -> None:
    assert grade_pattern(pattern, CASES).reason == "malformed"


def test_the_whole_string_has_to_match() -> None:
    assert grade_pattern("a+", CASES).correct
    assert grade_pattern("a", CASES).score == 0.5
    assert grade_pattern(None, CASES).reason == "no answer"


def test_no_choice_among_candidates() -> None:
    item = Item("", {"test_strings": [{"string": "12", "should_match": True}]}, "regex.synthesis", "short", "")
    assert grade(item, r"`\d{2}`").correct
    assert not grade(item, r"`\d{2}` or maybe `\d{3}`").correct


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from(["short", "medium", "long"]))
def test_segments_mean_what_their_pattern_says(seed: int, depth: str) -> None:
    """The matcher of segments against two engines, on strings inside, just outside and of a broken pattern."""
    rng = stream(seed, 0, 0, "test")
    segments = draw_segments(rng, depth)
    pattern = pattern_of(segments)
    inside = sample(segments, rng)
    texts = [inside, near_miss(inside, rng), draw_miss(segments, rng), sample(broken(segments, rng), rng)]
    for text in texts:
        expected = matches(segments, text)
        assert (re.fullmatch(pattern, text) is not None) == expected, (pattern, text)
        assert (regex.fullmatch(pattern, text) is not None) == expected, (pattern, text)
    assert matches(segments, inside)


def test_cases_have_both_kinds() -> None:
    rng = stream(0, 0, 0, "test")
    for _ in range(50):
        labels = [case["should_match"] for case in draw_cases(draw_segments(rng, "short"), rng)]
        assert any(labels)
        assert not all(labels)


@pytest.mark.parametrize("depth", ["short", "medium", "long"])
def test_cases_refuse_what_allows_a_little_more(depth: str) -> None:
    """Of patterns that differ in one segment, of those with `\\w` for every letter, and of those with a class or a dot
    in the place of a word's letters, hardly one is taken.
    """
    rng = stream(1, 0, 0, "test")
    taken: dict[str, list[bool]] = {"broken": [], "loosened": [], "letters": [], "words": []}
    for _ in range(200):
        segments = draw_segments(rng, depth)
        cases = [(str(case["string"]), bool(case["should_match"])) for case in draw_cases(segments, rng)]
        own = pattern_of(segments)
        assert grade_pattern(own, cases).correct
        for name, other in (("broken", broken(segments, rng)), ("loosened", loosened(segments, rng))):
            if other is not None and told_apart(segments, other, rng):
                taken[name].append(grade_pattern(pattern_of(other), cases).correct)
        words = [segment.text for segment in segments if isinstance(segment, Literal) and segment.text.isalpha()]
        words += [
            word for segment in segments if isinstance(segment, Choice) for word in (segment.first, segment.second)
        ]
        for word in words:
            for wider in (f"[a-z]{{{len(word)}}}", f"{word[:1]}.{word[2:]}", f"{word[:-1]}."):
                taken["words"].append(grade_pattern(own.replace(word, wider, 1), cases).correct)
        letters = re.sub(r"\[(?:0-9a-f|a-z|A-Z)\]", r"\\w", own)
        if letters != own:
            taken["letters"].append(grade_pattern(letters, cases).correct)
    for name, found in taken.items():
        assert len(found) > 90 and sum(found) / len(found) <= 0.03, name


def test_debugging_cases_tell_the_broken_pattern() -> None:
    rng = stream(0, 0, 0, "test")
    for depth in ("short", "medium", "long"):
        for _ in range(30):
            item = get("regex.debugging").make(rng, depth)
            grading = grade(item, item.target["broken_pattern"])
            assert not grading.correct
            assert 0 < grading.score < 1


def test_refactoring_has_to_be_shorter() -> None:
    target = {
        "pattern": r"\d{2}",
        "original_pattern": "[0-9][0-9]",
        "test_strings": [{"string": "12", "should_match": True}, {"string": "1", "should_match": False}],
    }
    item = Item("", target, "regex.refactoring", "short", "")
    assert grade(item, r"\d\d").correct
    assert grade(item, "[0-9][0-9]").reason == "not shorter"
    assert grade(item, "[0-9][0-9]").score == 0.5
    assert grade(item, r"\d*").score == 0.25
    plain = Item("", target | {"original_pattern": None}, "regex.refactoring", "short", "")
    assert grade(plain, "[0-9][0-9]").correct


def test_answers_may_be_wrapped() -> None:
    terms = {"terms": read_terms("3 digits, 'id'"), "reference_answer": ""}
    item = Item("", terms, "regex.explanation", "short", "")
    for answer in ("`3 digits, 'id'`", "\"3 digits, 'id'\"", "**3 digits, 'id'**"):
        assert grade(item, answer).correct, answer
    effect = {"required_keywords": ["ab1"], "strings": ["ab1", "ab"]}
    assert grade(Item("", effect, "regex.mutation_effect", "short", ""), "**ab1**").correct


def test_explanations_are_read_term_by_term() -> None:
    item = Item("", {"terms": read_terms("3 digits, 'id'"), "reference_answer": ""}, "regex.explanation", "short", "")
    assert grade(item, "three digits followed by 'id'").correct
    assert grade(item, 'It matches 3 digits and then "id".').correct
    assert not grade(item, "3 digits, 'id', 2 capitals").correct  # names too much
    assert not grade(item, "'id', 3 digits").correct
    assert not grade(item, r"\d{3}id").correct
    assert grade(item, "3 digits").score == pytest.approx(2 / 3)
    assert read_terms("optional '-', 1 or more lower-case letters or 2 hex digits") == [
        *("optional", "'-'", "1", "more", "small", "or", "2", "hex"),
    ]


def test_published_explanations_by_whole_keywords() -> None:
    item = Item("", {"required_keywords": ["hex", "digits"]}, "regex.explanation", "short", "")
    assert grade(item, "One or more HEX digits").correct
    assert grade(item, "hexagonal digits").score == 0.5
    assert get("regex.explanation").gold(item) == "hex digits"


def test_mutation_effects_by_exactly_the_right_strings() -> None:
    target = {"required_keywords": ["24", "2"], "strings": ["24", "2", "240", "x-2"]}
    item = Item("", target, "regex.mutation_effect", "short", "")
    assert grade(item, "24, 2").correct
    assert grade(item, "Only '2' and \"24\".").correct
    assert grade(item, "240, x-2").score == 0.0
    assert grade(item, "24, 2, 240").score == 0.5
    published = Item(
        'Which: "7", "70", "412"?', {"required_keywords": ["7", "412"]}, "regex.mutation_effect", "short", ""
    )
    assert grade(published, "7 and 412").correct
    assert not grade(published, "7, 70, 412").correct
