"""The stages that a program has to pass before it is trained, the cheapest first. Runs in a child process."""

import time
from collections.abc import Callable, Mapping, Sequence

from torch import nn

from evolora_core.searches.attention.corpus.alphabet import VOCAB
from evolora_core.searches.attention.frameworks.base import Framework
from evolora_core.searches.attention.host.flops import Cost
from evolora_core.searches.attention.host.sizes import Size
from evolora_core.searches.attention.judging.causality import check_causality, lengths_for
from evolora_core.searches.attention.judging.contract import check_build, construct
from evolora_core.searches.attention.judging.forms import check_repeats, check_rows, check_shapes
from evolora_core.searches.attention.judging.learning import check_cost, check_gradients, check_smoke, costs
from evolora_core.searches.attention.judging.loading import failed, load_program
from evolora_core.searches.attention.judging.membership import check_membership
from evolora_core.searches.attention.judging.surroundings import check_untouched, surroundings
from evolora_core.searches.attention.programs.reading import Step, Work, readings

_ODD = 7  # tokens: a length that divides nothing


def climb(
    source: str,
    framework: Framework | None,
    sizes: Sequence[Size],
    context: int,
    baseline_cost: Mapping[str, Cost],
    vocab: int = VOCAB,
    report: Callable[[Sequence[Step]], object] | None = None,
) -> list[Step]:
    """The stages in their order, up to the first that is not passed.

    sizes          at which it has to be built, the smallest first; most tests are made with that
    baseline_cost  what the baseline costs at each size, from `learning.costs` with the same vocabulary and context
    report         is called with the steps so far after each, so that they outlive a process that is killed
    """
    climbed = _Climb(source, framework, sizes, context, baseline_cost, vocab)
    steps: list[Step] = []
    for stage, work in climbed.stages():
        began = time.perf_counter()
        try:
            says = work()
            steps.append(Step(stage, True, says or "", "", time.perf_counter() - began))
        except Exception as error:  # the program's code runs in most stages and may raise anything
            fault = failed(stage, error, "")
            steps.append(Step(fault.stage, False, fault.reason, fault.place, time.perf_counter() - began))
        if report is not None:
            report(steps)
        if not steps[-1].passed:
            break
    return steps


class _Climb:
    """One program on its way up; `program` is there from stage `build` on."""

    def __init__(
        self,
        source: str,
        framework: Framework | None,
        sizes: Sequence[Size],
        context: int,
        baseline_cost: Mapping[str, Cost],
        vocab: int,
    ) -> None:
        self._source, self._framework, self._sizes = source, framework, sizes
        self._context, self._baseline, self._vocab = context, baseline_cost, vocab
        self._size = sizes[0]
        self._before = surroundings()
        self._program: Callable[[int, int], nn.Module]

    def stages(self) -> list[tuple[str, Work]]:
        """Every stage with the work that passes it."""
        return [
            *readings(self._source, self._framework),
            ("build", self._build),
            ("shapes", self._shapes),
            ("causality", self._causality),
            ("gradients", lambda: check_gradients(self._module(), self._size.dim, self._context)),
            ("membership", self._membership),
            ("cost", self._cost),
            ("smoke", self._smoke),
        ]

    def _module(self, size: Size | None = None) -> nn.Module:
        return construct(self._program, size or self._size, seed=0)

    def _build(self) -> None:
        self._program = load_program(self._source)
        check_build(self._program, self._sizes, self._context)
        check_untouched(self._before, "build")

    def _shapes(self) -> None:
        for size in self._sizes:
            lengths = sorted({1, _ODD, self._context, 2 * self._context + 3}) if size is self._size else [_ODD]
            check_shapes(self._module(size), size.dim, lengths)
        for length in sorted({2 * _ODD + 3, self._context, 2 * self._context + 3}):
            check_repeats(self._module(), self._size.dim, length)
        check_rows(self._module(), self._size.dim, 2 * _ODD + 3)
        check_untouched(self._before, "shapes")

    def _causality(self) -> str:
        lengths = lengths_for(self._context)
        check_causality(self._module(), self._size.dim, lengths)
        return f"lengths {', '.join(map(str, lengths))}"

    def _membership(self) -> str:
        if self._framework is None:
            return "no framework"
        check_membership(self._module(), self._framework, self._size.dim, self._size.heads, 2 * _ODD + 3)
        return ""

    def _cost(self) -> str:
        return check_cost(costs(self._program, self._sizes, self._vocab, self._context), self._baseline)

    def _smoke(self) -> str:
        says = check_smoke(self._program, self._size, self._context)
        check_untouched(self._before, "smoke")
        return says
