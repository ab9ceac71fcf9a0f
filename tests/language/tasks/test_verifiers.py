"""The verifiers that a task may name: what they take, what they refuse, and what is wrong with a row."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from evolora_core.language.tasks.base import Verifier
from evolora_core.language.tasks.json_verifier import extract_json
from evolora_core.language.tasks.verifiers import AnyVerifier


class Holder(BaseModel):
    verifier: AnyVerifier


def made(**settings: Any) -> Verifier:
    found: Verifier = Holder.model_validate({"verifier": settings}).verifier
    return found


SCHEMA = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("settings", "target", "right", "wrong"),
    [
        ({"kind": "exact"}, "Paris", ["paris", " Paris. ", "Answer: Paris", '"Paris"'], ["Paris is it", "Rome", "Par"]),
        ({"kind": "exact", "case": True}, "Paris", ["Paris"], ["paris"]),
        ({"kind": "exact"}, "two\nlines", ["two\nlines", "two lines"], ["two"]),
        ({"kind": "number"}, 12, ["12", "It is 12.", "3 * 4 = 12", "twelve"], ["13", "1 2", "none"]),
        (
            {"kind": "number"}, 2, ["Answer: 2 (42 rounded down)", "#### 2"],
            ["Answer: 42 (rounded to 2 decimals)", "The answer is 42, not 2", "It is not 2", "2 or 3", "2 million"],
        ),
        ({"kind": "number"}, "0.5", ["0.5", "0.54"], ["0.56", "1"]),
        ({"kind": "number"}, "1.50", ["1.5", "1.504"], ["1.51", "1.54"]),
        ({"kind": "number"}, 1.5, ["1.54"], ["1.56"]),
        ({"kind": "number"}, 12.0, ["12"], ["12.04"]),
        ({"kind": "number", "tolerance": 2}, 100, ["98", "102"], ["97.9", "103"]),
        ({"kind": "number", "relative": 0.1}, 200, ["181", "220"], ["179", "221"]),
        ({"kind": "choice", "options": ["yes", "no", "not sure"]}, "no", ["No", "yes or no"], ["yes", "not sure"]),
        ({"kind": "choice", "options": ["A", "B", "C"]}, "B", ["B", "(b)", "The answer is B"], ["A or C", "Bob"]),
        ({"kind": "exact"}, "Paris", ['"Paris".', "**Paris**.", "`Paris.`", "\u201cParis\u201d"], ["Pari"]),
        (
            {"kind": "choice", "options": ["A", "B", "C", "D"]}, "B",
            ["B. It is a mammal", "B: a mammal", "The answer is B because a cat purrs.", "I choose B, as a rule",
             "Option B is a good choice", "B) Paris is a city", "**B**: a cat", "b", "so b"],
            ["A. B is wrong", "It is a city", "a"],
        ),
        (
            {"kind": "choice", "options": ["A", "B", "C", "D"]}, "A",
            ["A", "a", "The answer is A", "(a)"], ["It is a dog.", "I think this is a hard question", "c"],
        ),
        ({"kind": "choice", "options": ["yes", "no"]}, "yes", ["Yes, there is no doubt.", "yes"], ["No, yes would do"]),
        ({"kind": "choice", "options": ["a", "b"]}, "b", ["The answer is B", "a or b"], ["a", "b or a"]),
        ({"kind": "exact"}, "**kwargs", ["**kwargs", "`**kwargs`"], ["kwargs", "*kwargs", "kwargs**"]),
        ({"kind": "exact"}, "f'", ["f'"], ["f"]),
        ({"kind": "exact"}, "yes", ["Answer: **yes**", "**Answer:** yes", "The answer is **yes**."], ["**no**"]),
        ({"kind": "number"}, 0.1 + 0.2, ["0.3"], ["0.31"]),
        ({"kind": "number"}, 1 / 3, ["0.3333333"], ["0.33"]),
        ({"kind": "number"}, 2.5e-9, ["0.0000000025", "2.5e-9"], ["0", "3e-9"]),
        ({"kind": "choice", "options": ["1", "1.5", "2"]}, "1.5", ["1.5 is right", "so 1.5"], ["1", "1. not 1", "2.5"]),
        ({"kind": "choice", "options": ["1", "1.5", "2"]}, "1", ["1. because", "1, not 2"], ["1.7", "1.5 is right"]),
        ({"kind": "choice", "options": ["3:1", "3", "1"]}, "3", ["3", "3: the ratio"], ["3:2", "3:1 is the ratio"]),
        ({"kind": "choice", "options": ["B", "C"]}, "C", ["It is C, not B", "C"], ["It is B, not C"]),
        ({"kind": "json"}, '{"a": 1}', ['{"a": 1}', '```json\n{ "a": 1 }\n```', 'so: {"a": 1}'], ['{"a": 2}', "[1]"]),
        ({"kind": "json"}, '{"a": 1}', [' {"a": 1}'], ['{"a": 2, "a": 1}', '{"a": 1, "a": 2}']),
        ({"kind": "json", "keys": ["a"]}, {"a": 1, "b": 2}, ['{"a": 1, "b": 3}'], ['{"b": 2}', "1"]),
        ({"kind": "json", "schema": SCHEMA}, None, ['{"a": 3}'], ['{"a": "3"}', "{}", "text"]),
        ({"kind": "regex", "pattern": r"[A-Z]{2}\d+"}, None, ["AB12", "`AB12`"], ["ab12", "AB12x"]),
        ({"kind": "regex"}, r"\d{3}", ["123"], ["12", "1234"]),
        ({"kind": "regex", "pattern": "Answer: (y|n)"}, None, ["Answer: y", " Answer: n "], ["y", "Answer: yn"]),
        ({"kind": "regex", "pattern": r"\d+\n\d+"}, None, ["1\n2"], ["1", "1 2"]),
        ({"kind": "exact"}, "*", ["*", "`*`"], [".", "**", ""]),
        ({"kind": "exact"}, "'", ["'"], ['"', "*"]),
        ({"kind": "regex", "pattern": '"[a-z]+"'}, None, ['"abc"', "`\"abc\"`"], ["abc"]),
        ({"kind": "contains-all"}, "red, blue", ["Blue and RED"], ["red", "green", "redder, blue"]),
        ({"kind": "contains-all"}, "c++, big cat", ["a big  cat in C++"], ["c++ and a big category"]),
        (
            {"kind": "contains-all"}, "12",
            ["It is 12.", "12", "11,12,13", "5-12", "12: a dozen", "12, not 5", "\u00a312", "No.12", "a...12", "12%"],
            ["312", "123", "12.5", "1.12", ".12", "-12", "it is \u221212", "12:30", "1:12", "1/12", "12,000", "x^12",
             "12^2"],
        ),
        ({"kind": "contains-all"}, "512, 3.11", ["512 and 3.11", "512,3.11,7", "3.11/a/512."], ["1,512 and 3.11.2"]),
        (
            {"kind": "contains-all"}, "red",
            ["<think>\nblue?\n</think>\nred"], ["<think>\nred?\n</think>\nblue", "<think>red"],
        ),
        (
            {"kind": "json"}, [1],
            ["<think>[2]</think>\n[1]", "[2]?</think>[1]"], ["<think>[1]</think> none", "<think>[1]"],
        ),
        ({"kind": "number"}, 5, ["<think>3 or 4</think> 5", "3 or 4?</think>\n5"], ["<think>so 5", "5?</think> none"]),
        ({"kind": "contains-all"}, "-12", ["-12", "(-12)"], ["12", "5-12", "-12.5"]),
        ({"kind": "contains-all", "case": True}, ["Red"], ["a Red one"], ["red"]),
        ({"kind": "contains-all"}, "caf\u00e9", ["a cafe\u0301"], ["cafe"]),
        ({"kind": "contains-all"}, "cafe\u0301", ["a caf\u00e9"], ["cafe"]),
        ({"kind": "exact"}, "caf\u00e9", ["cafe\u0301"], ["cafe"]),
        ({"kind": "exact"}, "Paris", ["<think>\nRome?\n</think>\n\nParis", "<think></think>Paris"], ["<think>Paris"]),
        ({"kind": "exact"}, "The answer is 5", ["the answer is 5."], ["5", "The answer is 6"]),
        ({"kind": "exact"}, "```\nx = 1\n```", ["```\nx = 1\n```", "x = 1"], ["x = 2"]),
        ({"kind": "regex", "pattern": r"\d{4}-\d\d"}, None, ["2024-01.", "**2024-01.**"], ["2024-1."]),
        (
            {"kind": "choice", "options": ["A", "B"]}, "B",
            ["B - because of A", "B \u2014 because of A", "**B** \u2013 not A"], ["A - not B", "B-A", "AB - A"],
        ),
        ({"kind": "choice", "options": ["negative", "positive"]}, "negative", ["so negative"], ["non-negative"]),
        ({"kind": "choice", "options": ["2", "3"]}, "2", ["it is 2"], ["it is -2", "x^2", "\u22122", "3"]),
        ({"kind": "exact", "case": True}, "Cafe\u0301", ["Caf\u00e9"], ["caf\u00e9"]),
        ({"kind": "choice", "options": ["caf\u00e9", "bar"]}, "cafe\u0301", ["so a cafe\u0301"], ["bar"]),
        ({"kind": "choice", "options": ["1", "2"]}, 1, ["1", "It is 1"], ["2"]),
        ({"kind": "exact", "case": True}, True, ["true"], ["True"]),
        ({"kind": "regex", "pattern": r"\d"}, 1, ["1"], ["x"]),
        ({"kind": "contains-all"}, [1, "a"], ["a 1"], ["a"]),
        (
            {"kind": "number"}, 42,
            ["答案是42。", "一共有42个苹果。", "答えは42です。", "정답은 42입니다.", "不是41，是42", "答案是４２"],
            ["答案是-42。", "负42", "42万", "约 42 万", "42点5", "42分之1", "不是42", "答案是43。", "1分之42"],
        ),
        ({"kind": "number"}, 1000, ["１，０００円"], ["１，０００万円"]),
        ({"kind": "number"}, -42, ["答案是-42", "答案是负42。", "マイナス42です"], ["答案是42"]),
        (
            {"kind": "choice", "options": ["A", "B", "C", "D"]}, "B",
            ["答案是B", "正解はBです", "B。因为A是错的", "（B）", "B，因为A是错的", "选B。"],
            ["答案是A", "AB型", "B错了，是C", "不是B"],
        ),
        (
            {"kind": "choice", "options": ["正面", "负面"]}, "正面",
            ["正面。", "这是正面的", "感情是正面。"], ["负面", "不是正面", "不是正面，是负面的"],
        ),
        ({"kind": "choice", "options": ["是", "不是"]}, "是", ["是的", "是，因为不是夜里"], ["不是的", "不是"]),
        ({"kind": "exact"}, "正面", ["正面。", " 正面 ", "“正面”。"], ["负面。", "正面的"]),
        (
            {"kind": "contains-all"}, "東京, GPU",
            ["答えは東京です。GPUを使う", "GPU東京"], ["答えは京都です。GPUを使う", "東京GPUS"],
        ),
        ({"kind": "contains-all"}, "12", ["答案是12个"], ["答案是-12个", "答案是12万", "120个"]),
    ],
)  # fmt: skip
def test_what_is_right_and_what_is_not(
    settings: dict[str, Any], target: Any, right: list[str], wrong: list[str]
) -> None:
    verifier = made(**settings)
    assert verifier.complaint(target) is None
    assert [answer for answer in right if not verifier.verify(target, answer).correct] == []
    assert [answer for answer in wrong if verifier.verify(target, answer).correct] == []
    if verifier.has_gold(target):
        assert verifier.verify(target, verifier.gold(target)).correct


def test_numbers_in_a_list_are_words() -> None:
    verifier = made(kind="contains-all")
    target = verifier.target(["Paris", 2020], {})
    assert target == ["Paris", "2020"] and verifier.gold(target) == "Paris, 2020"
    assert not verifier.verify(target, "Paris").correct


@pytest.mark.parametrize("kind", ["exact", "choice", "regex"])
def test_a_right_answer_begins_and_ends_without_white_space(kind: str) -> None:
    """Old files of completions begin with a blank, which a host would have to learn."""
    more: dict[str, Any] = {"choice": {"options": ["yes", "no"]}, "regex": {"pattern": "yes|no"}}
    verifier = made(kind=kind, **more.get(kind, {}))
    assert verifier.complaint(" yes\n") is None and verifier.gold(" yes\n") == "yes"
    code = made(kind="code", tests="tests")
    assert code.gold({"answer": "    x = 1\n", "tests": ["x"]}) == "    x = 1\n"


WORDS = st.text("abcdefg hij", min_size=1, max_size=12).filter(lambda text: text.strip())


@given(WORDS, WORDS)
def test_an_exact_answer_is_taken_and_another_refused(own: str, other: str) -> None:
    verifier = made(kind="exact")
    assert verifier.verify(own, verifier.gold(own)).correct
    if own.split() != other.split():
        assert not verifier.verify(own, verifier.gold(other)).correct


@given(st.decimals(-10000, 10000, places=2), st.decimals(-10000, 10000, places=2))
def test_a_number_is_taken_and_another_refused(own: Any, other: Any) -> None:
    verifier = made(kind="number", tolerance=0.001)
    assert verifier.verify(str(own), verifier.gold(str(own))).correct
    assert verifier.verify(str(own), verifier.gold(str(other))).correct == (own == other)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text('abc{}[]"\\', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(st.one_of(st.lists(JSON, max_size=3), st.dictionaries(st.text("ab", max_size=2), JSON, max_size=3)))
def test_json_is_found_in_a_sentence(value: Any) -> None:
    for text in (json.dumps(value), f"It is {json.dumps(value)} I think", f"```\n{json.dumps(value, indent=1)}\n```"):
        assert extract_json(text) == (value,)


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        ({"type": "number", "multipleOf": 0.01}, "1e999"),
        ({"type": "number", "multipleOf": 0.5}, "1" * 401),
        ({"type": "string", "pattern": "^(a|a)+$"}, f'"{"a" * 40}!"'),
        ({"type": "array"}, "[1," * 20000),
        ({"patternProperties": {"^(a|a)+$": {"type": "null"}}}, f'{{"{"a" * 40}!": 1}}'),
        ({"patternProperties": {"^(a|a)+$": {}}, "additionalProperties": False}, f'{{"{"a" * 40}!": 1}}'),
    ],
)
def test_no_json_ends_a_run_or_takes_for_ever(schema: dict[str, Any], answer: str) -> None:
    assert not made(kind="json", schema=schema).verify(None, answer).correct


@given(
    st.fixed_dictionaries({}, optional={
        "properties": st.just({"a": {"type": "integer"}}),
        "patternProperties": st.sampled_from([{"^b": {"type": "string"}}, {"b": {}, "c$": {"type": "null"}}]),
        "additionalProperties": st.sampled_from([True, False, {"type": "integer"}]),
    }),
    st.dictionaries(st.text("abc", max_size=2), st.sampled_from([1, "x", None]), max_size=3),
)  # fmt: skip
def test_properties_are_those_of_the_library(schema: dict[str, Any], value: dict[str, Any]) -> None:
    from jsonschema import Draft202012Validator

    right = Draft202012Validator(schema).is_valid(value)
    assert made(kind="json", schema=schema).verify(None, json.dumps(value)).correct == right


@given(st.text(max_size=60))
def test_no_answer_is_too_strange(answer: str) -> None:
    verifiers = [
        (made(kind="exact"), "x"), (made(kind="number"), 1), (made(kind="choice", options=["a", "b"]), "a"),
        (made(kind="json", schema=SCHEMA), None), (made(kind="regex", pattern="a+b"), None),
        (made(kind="contains-all"), "a,b"),
    ]  # fmt: skip
    for verifier, target in verifiers:
        grade = verifier.verify(target, answer)
        assert 0 <= grade.score <= 1 and grade.correct in (True, False) and grade.correct <= (grade.score == 1)


@pytest.mark.parametrize(
    ("settings", "target", "complaint"),
    [
        ({"kind": "exact"}, " ", "must be text"),
        ({"kind": "exact"}, [3], "must be text"),
        ({"kind": "choice", "options": ["1", "2"]}, 3, "must be one of 1, 2"),
        ({"kind": "number"}, "many", "must be a number"),
        ({"kind": "choice", "options": ["a", "b"]}, "c", "must be one of a, b"),
        ({"kind": "json"}, "{", "must be JSON"),
        ({"kind": "json"}, None, "must be JSON; without a schema nothing else says what is right"),
        ({"kind": "json", "keys": ["a"]}, "[]", "must be an object with a"),
        ({"kind": "json", "schema": SCHEMA}, '{"a": "x"}', "does not fit the schema: 'x' is not of type 'integer'"),
        ({"kind": "regex"}, "(", "must be a regular expression"),
        ({"kind": "regex", "pattern": "a"}, "b", "does not fit the pattern"),
        ({"kind": "contains-all"}, " , ", "must be words"),
        ({"kind": "contains-all"}, ["Paris", None], "must be words"),
    ],
)
def test_what_is_wrong_with_a_row(settings: dict[str, Any], target: Any, complaint: str) -> None:
    assert made(**settings).complaint(target) == complaint


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "similar"}, "its `kind` is one of exact, number, choice, json, regex, contains-all, code; set it"),
        ({}, "its `kind` is one of exact, number"),
        ({"kind": "choice", "options": ["a", "A "]}, "two options are the same"),
        ({"kind": "json", "schema": {"type": "thing"}}, "schema: 'thing' is not valid"),
        (
            {"kind": "json", "schema": {"patternProperties": {"a": {}}, "unevaluatedProperties": False}},
            "schema: has `unevaluatedProperties` beside `patternProperties`",
        ),
        ({"kind": "json", "schema": {"$ref": "#/$defs/x", "definitions": {"x": {}}}}, "refers to #/.defs/x, which it"),
        ({"kind": "json", "schema": {"allOf": [{"$ref": "http://localhost:1/a"}]}}, "refers to http://localhost:1/a,"),
        ({"kind": "regex", "pattern": "("}, "no regular expression"),
        ({"kind": "exact", "tolerance": 1}, "Extra inputs"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        made(**settings)


def test_a_schema_fetches_nothing_and_a_pattern_ends() -> None:
    tree = {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
    assert made(kind="json", schema=tree).verify(None, "[[], [[]]]").correct
    away = made(kind="json", schema={"$id": "http://localhost:1/", "$ref": "schema.json"})
    assert "refers to" in away.verify(None, "{}").reason
    assert made(kind="regex", pattern="(a+)+b").verify(None, "a" * 40).reason in ("timeout", "wrong")
