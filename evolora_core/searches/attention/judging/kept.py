"""Measurements that are kept until a panel is closed, so that one that was killed does not train again what it had.

A refusal is kept as well: a program that took too long is not asked again by the run that goes on. Of a training under
way the child's folder is kept, in which it leaves its state from time to time.

    KEY/            where the child works
    KEY.json        what came of it: facts
    KEY.losses      and the losses of the texts, where there are any (safetensors)
"""

import json
import logging
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from evolora_core.engine.artifacts import write_json
from evolora_core.searches.attention.judging.measure import Measured
from evolora_core.searches.attention.programs.rejection import Rejection

log = logging.getLogger(__name__)


def key_of(*asked: Any) -> str:
    """The name of a question, from what it is about."""
    return blake2b(json.dumps(asked).encode(), digest_size=16).hexdigest()


def keep_measured(place: Path, found: Measured) -> None:
    """Write a measurement to PLACE.losses and PLACE.json, the facts last: they say that it is whole."""
    facts = asdict(found) | {"losses": found.losses is not None}
    if found.losses is not None:
        save_file({"losses": found.losses}, place.with_suffix(".losses"))
    _write(place, facts)


def kept_measured(place: Path) -> Measured | None:
    """What `keep_measured` left there; None: nothing."""
    facts = _read(place)
    if facts is None:
        return None
    losses: np.ndarray | None = load_file(place.with_suffix(".losses"))["losses"] if facts["losses"] else None
    return Measured(**facts | {"losses": losses, "rejection": _rejection(facts["rejection"])})


@dataclass(frozen=True)
class Verdict:
    """What the ladder said of a program, and the processor seconds that this took. rejection: None where it may be
    trained.
    """

    rejection: Rejection | None
    cpu_seconds: float


def keep_verdict(place: Path, found: Verdict) -> None:
    """Write what the ladder said."""
    _write(place, asdict(found))


def kept_verdict(place: Path) -> Verdict | None:
    """What `keep_verdict` left there; None: nothing."""
    facts = _read(place)
    return None if facts is None else Verdict(_rejection(facts["rejection"]), facts["cpu_seconds"])


def _write(place: Path, facts: dict[str, Any]) -> None:
    write_json(place.with_suffix(".json"), facts)


def _read(place: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(place.with_suffix(".json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        log.warning("%s.json is damaged: it is measured again", place.name)
        return None
    return found


def _rejection(facts: dict[str, str] | None) -> Rejection | None:
    return Rejection(**facts) if facts else None
