"""Stage `corpus`: what all models of a run seed learn from and are judged by."""

from typing import TYPE_CHECKING

from evolora_core.engine.stage import SHARED, Made, NoFacts, Stage, StageRequest, Suite, Work, stage_request
from evolora_core.searches.attention.corpus.settings import CorpusSettings

if TYPE_CHECKING:
    from evolora_core.searches.attention.experiment import AttentionExperiment


def request(suite: "Suite[AttentionExperiment]", seed: int) -> StageRequest:
    """The corpus of a run seed."""
    return stage_request(suite, "corpus", SHARED, seed, entry=__name__, config=suite.config.corpus, inputs={})


def make(work: Work[CorpusSettings]) -> Made[NoFacts]:
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
