"""The library that draws the plots, as one text of JavaScript that a page carries with it."""

from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from evolora_core.engine.artifacts import write_atomic
from evolora_core.errors import ConfigError

NEEDED = {"altair": "altair", "vl-convert-python": "vl_convert"}  # distribution -> module
ENTRY = "globalThis.vegaEmbed = vegaEmbed;"


def installed() -> bool:
    """Whether the extra `scope` is there."""
    return not _missing()


def check_installed() -> None:
    """Raise ConfigError unless it is."""
    if missing := _missing():
        raise ConfigError(
            f"the page needs {' and '.join(missing)}, which this environment lacks; run `pip install "
            "-c constraints.txt -e '.[scope]'`"
        )


def library(home: Path) -> str:
    """Vega, Vega-Lite and vega-embed as one module. Kept in the cache of `home`, as making it takes seconds."""
    from altair import SCHEMA_VERSION

    vega_lite = ".".join(SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    file = home / "cache" / "vega" / f"{metadata.version('vl-convert-python')}-{vega_lite}.js"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, _bundle(vega_lite))
    return file.read_text(encoding="utf-8")


def _missing() -> list[str]:
    return [name for name, module in NEEDED.items() if find_spec(module) is None]


@cache
def _bundle(vega_lite: str) -> str:
    import vl_convert

    text: str = vl_convert.javascript_bundle(ENTRY, vl_version=vega_lite)
    return text
