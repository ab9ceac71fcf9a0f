"""Stage `corpus`: what all models of a run seed learn from and are judged by."""

import platform
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from evolora_core.engine.stage import SHARED, Made, NoFacts, Stage, StageRequest, Suite, Work, stage_request
from evolora_core.searches.attention.corpus.settings import CorpusSettings

if TYPE_CHECKING:
    from evolora_core.searches.attention.experiment import AttentionExperiment


class Drawn(CorpusSettings):
    """What a corpus depends on. text: the version of Python, the hash of a folder's files, or the name of a data set of
    the hub; "" without text.
    """

    source: str = Field(exclude=True)  # where a folder lies decides nothing
    text: str


def request(suite: "Suite[AttentionExperiment]", seed: int) -> StageRequest:
    """The corpus of a run seed."""
    return stage_request(suite, "corpus", SHARED, seed, entry=__name__, config=drawn(suite.config.corpus), inputs={})


def drawn(settings: CorpusSettings) -> Drawn:
    """The same with what its text is."""
    return Drawn(**settings.model_dump(), text=_text(settings))


def _text(settings: CorpusSettings) -> str:
    """Another Python has another library, and a folder's files may change."""
    from evolora_core.engine.artifacts import sha256
    from evolora_core.engine.identity import digest

    if "text" not in settings.shares:
        return ""
    if settings.source == "python":
        return f"Python {platform.python_version()}"
    folder = Path(settings.source).expanduser()
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return digest([(path.relative_to(folder).as_posix(), sha256(path)) for path in files]) if files else settings.source


def make(work: Work[Drawn]) -> Made[NoFacts]:
    """Leaves train.safetensors and texts.safetensors, and the table `splits`."""
    from evolora_core.engine.artifacts import sha256
    from evolora_core.engine.tables import write_table
    from evolora_core.searches.attention.corpus.base import TEXTS, TRAIN, save
    from evolora_core.searches.attention.corpus.registry import make_corpus
    from evolora_core.searches.attention.panel import select

    corpus = make_corpus(work.config, work.seed)
    save(corpus, work.folder)
    train, texts = sha256(work.folder / TRAIN), sha256(work.folder / TEXTS)
    rows = [{"split": "train", "family": "*", "depth": "*", "n": len(corpus.train), "sha256": train}]
    for split in ("selection", "test"):
        kinds = select(corpus, split).kinds
        rows += [
            {"split": split, "family": kind, "depth": "*", "n": kinds.count(kind), "sha256": texts}
            for kind in sorted(set(kinds))
        ]
    write_table(work.folder, "splits", rows)
    return Made(0, NoFacts())


CORPUS = Stage("corpus", request, make)
