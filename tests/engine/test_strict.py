"""Settings that came later leave hashes and files as they were."""

from pydantic import Field

from evolora_core.engine.strict import LATER, Strict, config_hash, stated


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
