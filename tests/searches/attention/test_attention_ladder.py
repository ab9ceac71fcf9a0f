"""The ladder: each attack falls at its stage with a reason and a place; what is honest comes to the top."""

from dataclasses import replace

import pytest
import torch
from searches.attention.attention_attacks import ATTACKS, HONEST, program

from evolora_core.searches.attention.frameworks.registry import FRAMEWORKS
from evolora_core.searches.attention.host.flops import Cost
from evolora_core.searches.attention.host.model import build
from evolora_core.searches.attention.host.sizes import SIZES
from evolora_core.searches.attention.judging.contract import construct
from evolora_core.searches.attention.judging.ladder import climb
from evolora_core.searches.attention.judging.learning import check_smoke
from evolora_core.searches.attention.judging.loading import load_program
from evolora_core.searches.attention.judging.measure import baseline_costs
from evolora_core.searches.attention.judging.membership import check_membership
from evolora_core.searches.attention.judging.surroundings import surroundings
from evolora_core.searches.attention.programs.rejection import LADDER, Rejected
from evolora_core.searches.attention.programs.signature import check_signature

SMALL = (SIZES["xs"], SIZES["s"])
CONTEXT, VOCAB = 64, 128
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def baseline() -> dict[str, Cost]:
    """What softmax attention costs."""
    return baseline_costs(SMALL, CONTEXT, VOCAB)


@pytest.mark.parametrize("name", ATTACKS)
def test_each_attack_falls_at_its_stage(name: str, baseline: dict[str, Cost], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.nn.functional, "gelu", torch.nn.functional.gelu)  # put back what some of them change
    monkeypatch.setattr(torch.nn.Sequential, "forward", torch.nn.Sequential.forward)
    attack = ATTACKS[name]
    try:
        steps = climb(attack.source, None, SMALL, CONTEXT, baseline, VOCAB)
    finally:
        torch.nn.modules.module._global_forward_hooks.clear()
    last = steps[-1]
    assert [step.stage for step in steps] == list(LADDER[: len(steps)])
    assert not last.passed and all(step.passed for step in steps[:-1])
    assert last.stage == attack.stage, last
    assert attack.says in f"{last.reason} ({last.place})", last
    assert last.place


def test_all_that_the_host_is_made_of_is_looked_after() -> None:
    model = build(load_program(HONEST), SIZES["xs"], VOCAB, seed=0)
    bare = [
        part for name, part in model.named_modules() if not name.endswith("attention") and ".attention." not in name
    ]
    owners = {name.rpartition(".")[0] for name in surroundings()}
    for kind in {kind for part in bare for kind in type(part).__mro__[:-1]}:
        assert owners & {f"torch.nn.{kind.__name__}", f"the host's {kind.__name__}"}, kind


def test_the_honest_one_comes_to_the_top(baseline: dict[str, Cost]) -> None:
    told: list[int] = []
    steps = climb(HONEST, None, SMALL, CONTEXT, baseline, VOCAB, lambda steps: told.append(len(steps)))
    assert [step.stage for step in steps] == list(LADDER) and all(step.passed for step in steps)
    assert told == list(range(1, len(LADDER) + 1))
    assert "xs: " in steps[LADDER.index("cost")].reason and "1.000 x parameters" in steps[LADDER.index("cost")].reason


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_each_framework_s_own_text_comes_to_the_top(name: str, baseline: dict[str, Cost]) -> None:
    framework = FRAMEWORKS[name]
    steps = climb(framework.source, framework, SMALL[:1], CONTEXT, baseline, VOCAB)
    assert [step.stage for step in steps] == list(LADDER) and steps[-1].passed, steps[-1]


def test_a_framework_s_fixed_part_stays(baseline: dict[str, Cost]) -> None:
    framework = FRAMEWORKS["coefficient-dynamics"]
    source = framework.source.replace("torch.tril(self.core(q, k, x)) @ v", "self.core(q, k, x) @ v")
    step = climb(source, framework, SMALL[:1], CONTEXT, baseline, VOCAB)[-1]
    assert (step.stage, step.passed) == ("markers", False) and "line" in step.place


def test_a_slot_s_arguments_stay() -> None:
    framework = FRAMEWORKS["coefficient-dynamics"]
    told = framework.source.replace("def forward(self, q: Tensor, k: Tensor, x: Tensor)", "def forward(self, q, k, v)")
    with pytest.raises(Rejected, match=r"Coefficients\.forward\(self, q, k, v\) instead of \(self, q, k, x\)"):
        check_signature(told, framework)
    twice = framework.source.replace("class Finish(", "class Prepare(nn.Module):\n    pass\n\n\nclass Finish(")
    with pytest.raises(Rejected, match="stands more than once"):
        check_signature(twice, framework)
    plain = framework.source.replace("class Finish(nn.Module)", "class Finish(Prepare)")
    with pytest.raises(Rejected, match="Finish is no nn.Module"):
        check_signature(plain, framework)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_membership_is_counted_again(name: str) -> None:
    """A program whose fixed part takes something else from its slots is none of the framework's."""
    framework, size = FRAMEWORKS[name], SIZES["s"]
    good = construct(load_program(framework.source), size, 0)
    check_membership(good, framework, size.dim, size.heads, 11)
    taken = "self.core(" if name == "test-time-regression" else "torch.tril("
    other = framework.source.replace(taken, f"0.5 * {taken}")
    with pytest.raises(Rejected, match="not what"):
        check_membership(construct(load_program(other), size, 0), framework, size.dim, size.heads, 11)


def test_a_core_of_another_form_is_none() -> None:
    framework, size = FRAMEWORKS["coefficient-dynamics"], SIZES["s"]
    for_all = framework.source.replace('float("-inf")), dim=-1)', 'float("-inf")), dim=-1)[:, :1]')
    assert for_all != framework.source
    with pytest.raises(Rejected, match=r"returns \[2, 1, 11, 11\] instead of \[2, 4, 11, 11\]"):
        check_membership(construct(load_program(for_all), size, 0), framework, size.dim, size.heads, 11)


def test_a_loss_that_does_not_fall_is_refused() -> None:
    """One drowns everything in a direction that turns with each step, one lasts for a single step."""
    turns = program(after="return self.out(y) + 1e6 * torch.sin(1e6 * self.value.weight.sum() + torch.arange(d))")
    once = program(
        "self.one = nn.Parameter(torch.ones(1))", after="y = y * torch.where(self.one == 1, self.one, math.nan)"
    )
    for source, says in ((turns, "does not fall"), (once, "not finite")):
        with pytest.raises(Rejected, match=says) as caught:
            check_smoke(load_program(source), SIZES["xs"], 16)
        assert caught.value.stage == "smoke" and "step" in caught.value.place


def test_costs_are_compared_at_each_size(baseline: dict[str, Cost]) -> None:
    """A program that is cheap at the smallest size only."""
    tight = baseline | {"s": replace(baseline["s"], elements=0, products=baseline["s"].products // 4)}
    step = climb(HONEST, None, SMALL, CONTEXT, tight, VOCAB)[-1]
    assert (step.stage, step.passed, step.place) == ("cost", False, "s")


def test_stages_leave_the_generator_and_torch_alone(baseline: dict[str, Cost]) -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    climb(HONEST, None, SMALL[:1], 16, baseline)
    assert torch.equal(before, torch.get_rng_state()) and torch.is_grad_enabled()
