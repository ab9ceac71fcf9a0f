"""Settings that came later leave hashes and files as they were."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import Discriminator, Field, Tag, ValidationError

from evolora_core.engine.strict import LATER, Strict, config_hash, explain_fault, stated


class Inner(Strict):
    """Settings within settings."""

    old: int = 1
    new: list[int] = Field([1], json_schema_extra=LATER)


class Outer(Strict):
    """Settings."""

    one: Inner = Inner()
    several: list[Inner] = [Inner(), Inner(new=[2])]
    named: dict[str, Inner] = {}
    later: str = Field("as before", json_schema_extra=LATER)


class Before(Strict):
    """Half of the settings as they were."""

    one: dict[str, int] = {"old": 1}
    several: list[dict[str, object]] = [{"old": 1}, {"old": 1, "new": [2]}]
    named: dict[str, int] = {}


def test_a_setting_that_came_later_counts_where_it_is_used() -> None:
    assert stated(Outer()) == Before().model_dump()
    assert config_hash(Outer()) == config_hash(Before())
    assert stated(Outer(later="otherwise"))["later"] == "otherwise"
    assert stated(Outer(named={"x": Inner(new=[3])}))["named"] == {"x": {"old": 1, "new": [3]}}
    hashes = {config_hash(own) for own in (Outer(), Outer(later="otherwise"), Outer(one=Inner(new=[])))}
    assert len(hashes) == 3


def test_what_is_stated_is_read_again() -> None:
    for given in (Outer(), Outer(later="x", named={"x": Inner(new=[3])})):
        assert Outer.model_validate(stated(given)) == given


class Cat(Strict):
    """One kind."""

    kind: Literal["cat"]
    lives: int = 9


class Dog(Strict):
    """Another."""

    kind: Literal["dog"]
    tricks: list[str] = []


Pet = Annotated[
    Annotated[Cat, Tag("cat")] | Annotated[Dog, Tag("dog")], Discriminator(lambda given: dict(given).get("kind"))
]


class House(Strict):
    """Settings with a choice of models."""

    pets: list[Pet] = []
    first: Pet | None = None
    inner: Inner | None = None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"first": {"kind": "cat", "livs": 3}}, "unknown key 'first.livs'; did you mean 'lives'?"),
        ({"pets": [{"kind": "dog", "lives": 3}]}, "unknown key 'pets.0.lives'; there are kind, tricks"),
        ({"pets": [{"kind": "cat", "lives": "x"}]}, "key 'pets.0.lives': input should be a valid integer"),
        ({"inner": {"odl": 1}}, "unknown key 'inner.odl'; did you mean 'old'?"),
    ],
)
def test_a_key_of_one_of_several_models_is_named_as_the_file_has_it(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as error:
        House.model_validate(given)
    assert explain_fault(error.value, House).startswith(said)


class Weighed(Strict):
    """A number, or one for each group."""

    weight: float | list[float] = 1.0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"weight": "x"}, "key 'weight': input should be a valid number, unable to parse"),
        ({"weight": [1, "x"]}, "key 'weight': input should be a valid number (got [1, 'x'])"),
        ({"float": 1}, "unknown key 'float'"),
        ({"list[": 1}, "unknown key 'list['"),
        ({"": 1}, "unknown key ''"),
    ],
)
def test_a_key_is_named_without_the_types_that_it_may_have(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as fault:
        Weighed.model_validate(given)
    assert explain_fault(fault.value, Weighed).startswith(words)
