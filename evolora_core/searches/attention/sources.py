"""Where the text of a condition's program comes from, where it is not searched for."""

from pathlib import Path

from evolora_core.errors import ConfigError
from evolora_core.searches.attention.known.registry import KNOWN, get_known

MOST = 1_000_000  # characters of a file that are read; the ladder refuses far shorter ones


def source_of(condition: str, path: str = "") -> str:
    """The text of a known mechanism, or of a file of the user's. ConfigError for a file that is no text."""
    if not path:
        return get_known(condition).source
    try:
        with Path(path).open(encoding="utf-8") as file:
            return file.read(MOST)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as text ({error})") from error


def trusted(condition: str) -> bool:
    """Whether a condition's program is of this project."""
    return condition in KNOWN
