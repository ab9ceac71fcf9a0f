"""How a suite ends whose experiment declares comparisons under `evaluation`: they are made, then the pack is."""

from collections.abc import Mapping, Sequence
from typing import Any

from evolora_core.engine.stage import StageResult, Step, Suite
from evolora_core.searches.comparing import compare_step
from evolora_core.searches.packing import pack_step


def closing(
    suite: Suite[Any], seeds: Sequence[int], steps: Sequence[Step], results: Mapping[str, StageResult]
) -> list[Step]:
    """The declared comparisons, and the pack."""
    evaluation = suite.config.evaluation
    compared = compare_step(suite, seeds, steps, evaluation.comparisons, evaluation.bootstrap)
    return [compared, pack_step(suite, seeds, results, compared)]
