"""Suite files and overrides."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hostile.conftest import accepted_or_refused, tried
from hostile.values import ANY, WORDS, garbled, paths, spoilt
from hypothesis import given
from hypothesis import strategies as st

from evolora_core.engine.strict import config_hash
from evolora_core.searches.adapters.experiment import SuiteConfig, load_suite

FILE = Path(__file__).parents[2] / "configs" / "suites" / "tiny.yaml"
TEXT = FILE.read_text(encoding="utf-8")
DOCUMENT = yaml.safe_load(TEXT)
DEFAULTS = SuiteConfig.model_validate(DOCUMENT).model_dump(mode="json")
BOMB = "a: &a [1, 1, 1, 1]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return tmp_path_factory.mktemp("suite") / "suite.yaml"


def load(path: Path, overrides: tuple[str, ...] = ()) -> None:
    """Read a suite, and write what a run writes of it first."""
    config = accepted_or_refused(lambda: load_suite(path, overrides))
    if config is not None:
        assert len(config_hash(config)) == 8
        assert load_suite(path, overrides) == config
        for condition in config.conditions:
            if condition != "frozen":
                config.settings(condition)


def test_what_is_not_spoilt_is_taken() -> None:
    assert accepted_or_refused(lambda: load_suite(FILE, ("sft.rank=4",))) is not None


MARKS = "[]{}:,&*!|>%@`'\"#-? \t\n\\.~0a"
FILES = st.one_of(
    spoilt(DOCUMENT).map(lambda document: yaml.dump(document, allow_unicode=True)),
    spoilt(DEFAULTS).map(lambda document: yaml.dump(document, default_flow_style=None)),
    garbled(TEXT, MARKS),
    garbled(TEXT, MARKS),
    st.text(MARKS, max_size=60),
    st.sampled_from(
        [BOMB, TEXT + BOMB, "[" * 5000, "a: " * 50, "? " * 3000, "&a [*a]", f"{'x' * 100_000}: 1", "- " * 4000]
    ),
)


@tried
@given(text=FILES)
def test_a_suite_file(file: Any, text: str) -> None:
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    load(file)


KEYS = st.one_of(
    st.sampled_from(
        [".".join(map(str, path)) for path in paths(DEFAULTS) if not any(isinstance(p, int) for p in path)]
    ),
    st.sampled_from(
        ["a." * 3000 + "b", "", ".", "..", "ecology.", "arms.x.changes.a.b", "sft.trials", "ecology.trials"]
    ),
    WORDS,
)
SETTINGS = st.one_of(
    st.builds(lambda key, value: f"{key}={yaml.dump(value, default_flow_style=True).strip()}", KEYS, ANY),
    st.builds(lambda key, text: f"{key}={text}", KEYS, st.one_of(WORDS, st.text(MARKS, max_size=20), st.just(BOMB))),
    WORDS,
)


@tried
@given(overrides=st.lists(SETTINGS, min_size=1, max_size=3))
def test_overrides(overrides: Any) -> None:
    load(FILE, tuple(overrides))
