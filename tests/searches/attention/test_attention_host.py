"""The host model: the same for every mechanism, trained on the same batches, counted and not timed."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from searches.attention.attention_programs import known, loaded
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from evolora_core.engine.rng import stream
from evolora_core.searches.attention.host import training
from evolora_core.searches.attention.host.flops import Elements, cost_of_step
from evolora_core.searches.attention.host.model import build, sinusoids
from evolora_core.searches.attention.host.sizes import SIZES, non_embedding, total
from evolora_core.searches.attention.host.training import BETAS, CLIP, TrainSpec, batch_of, loss_of, train
from evolora_core.searches.attention.known.registry import KNOWN
from evolora_core.searches.attention.programs.rejection import Rejected

XS, M = SIZES["xs"], SIZES["m"]
SPEC = TrainSpec(steps=12, batch=4, context=10, rate=3e-3, warmup=3)


def rows(count: int = 40, vocab: int = 20) -> Tensor:
    """Examples in which every token follows from the one before."""
    first = torch.arange(count)[:, None] * 7
    return (first + 3 * torch.arange(SPEC.context + 1)) % vocab


# The model


def test_sizes_have_the_parameters_that_the_first_system_counted() -> None:
    found = {size.name: non_embedding(build(known("mha"), size, 50, seed=0)) for size in SIZES.values()}
    assert [found[name] for name in ("xs", "s", "m", "l", "xl", "xxl")] == [6592, 25472, 84912, 200064, 447552, 991616]
    assert [found[f"first-{number}"] for number in range(1, 5)] == [447552, 793344, 1189888, 2669568]
    for size in SIZES.values():
        d = size.dim
        assert found[size.name] == size.layers * (4 * (d * d + d) + 8 * d * d + 5 * d + 4 * d) + 2 * d
    assert total(build(known("mha"), XS, 50, seed=0)) == 6592 + 50 * 16


def test_positions_are_sines_and_cosines() -> None:
    places = sinusoids(11, 6, torch.device("cpu"))
    for p in range(11):
        for i in range(3):
            angle = p / 10000 ** (2 * i / 6)
            assert places[p, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert places[p, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_a_program_may_leave_the_positions_out() -> None:
    """With a mechanism that sees one token at a time, a token's logits then tell nothing of its place."""
    alone = KNOWN["window-1"].source
    bare = alone.replace("class Attention(nn.Module):\n", "class Attention(nn.Module):\n    positions = False\n\n")
    tokens = torch.tensor([[5, 5, 5, 5]])
    with_positions = build(loaded(alone), XS, 20, seed=0)(tokens)
    without = build(loaded(bare), XS, 20, seed=0)(tokens)
    assert torch.equal(without[0, 0], without[0, 3])
    assert (with_positions[0, 0] - with_positions[0, 3]).abs().max() > 1e-3


def test_the_host_is_what_it_says() -> None:
    """The forward pass, written down once more from the parameters by name."""
    model = build(known("mha"), XS, 20, seed=3)
    p = dict(model.named_parameters())
    tokens = torch.arange(14).view(2, 7)
    x = 4 * p["embedding.weight"][tokens] + sinusoids(7, 16, tokens.device)  # 4 is the root of the width
    for i in range(2):
        name = f"blocks.{i}"
        normed = F.layer_norm(x, (16,), p[f"{name}.before_attention.weight"], p[f"{name}.before_attention.bias"])
        x = x + model.get_submodule(f"{name}.attention")(normed)
        normed = F.layer_norm(x, (16,), p[f"{name}.before_ffn.weight"], p[f"{name}.before_ffn.bias"])
        wide = F.gelu(normed @ p[f"{name}.ffn.0.weight"].T + p[f"{name}.ffn.0.bias"])
        x = x + wide @ p[f"{name}.ffn.2.weight"].T + p[f"{name}.ffn.2.bias"]
    logits = F.layer_norm(x, (16,), p["norm.weight"], p["norm.bias"]) @ p["embedding.weight"].T
    assert torch.allclose(model(tokens), logits, atol=1e-6)


def test_a_programs_own_parameters_shift_no_others() -> None:
    source = KNOWN["mha"].source
    key = "        self.key = nn.Linear(dim, dim)\n"
    more = loaded(source.replace(key, key + "        self.more = nn.Parameter(torch.randn(dim, 5))\n"))
    ours, plain = (dict(build(found, M, 30, seed=2).named_parameters()) for found in (more, known("mha")))
    added = set(ours) - set(plain)
    assert added == {f"blocks.{i}.attention.more" for i in range(3)}
    assert all(torch.equal(ours[name], plain[name]) for name in plain)


def test_a_seed_says_all_and_disturbs_nothing() -> None:
    torch.manual_seed(1)
    wanted = torch.rand(3)
    torch.manual_seed(1)
    one = build(known("mha"), XS, 20, seed=0)
    assert torch.equal(torch.rand(3), wanted)
    again, other = build(known("mha"), XS, 20, seed=0), build(known("mha"), XS, 20, seed=1)
    for name, drawn in one.named_parameters():
        assert torch.equal(again.get_parameter(name), drawn)
        if "norm" not in name and "before" not in name:
            assert not torch.equal(other.get_parameter(name), drawn)
    layers = [one.get_parameter(f"blocks.{i}.attention.query.weight") for i in range(2)]
    assert not torch.equal(*layers)


def test_the_host_draws_what_torch_draws() -> None:
    """Uniform within 1 / sqrt(inputs) for a linear layer, and a standard deviation of 1 / sqrt(d) for the embedding."""
    model = build(known("mha"), SIZES["xl"], 96, seed=0)
    weight = model.get_parameter("blocks.0.ffn.2.weight")
    assert weight.abs().max().item() == pytest.approx(1 / math.sqrt(384), rel=0.01)
    assert weight.std().item() == pytest.approx(1 / math.sqrt(3 * 384), rel=0.02)
    assert model.embedding.weight.std().item() == pytest.approx(96**-0.5, rel=0.03)


# Training


def test_the_rate_rises_then_falls_to_nothing() -> None:
    spec = TrainSpec(steps=100, batch=1, context=1, rate=2.0, warmup=4)
    assert [spec.rate_at(step) for step in range(5)] == [0.5, 1.0, 1.5, 2.0, 2.0]
    assert spec.rate_at(52) == pytest.approx(1.0)
    assert 0 < spec.rate_at(99) < 0.001 and spec.rate_at(100) == pytest.approx(0)
    assert TrainSpec(steps=2, batch=1, context=1, rate=2.0, warmup=0).rate_at(0) == 2.0


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"batch": 0}, {"rate": 0.0}, {"warmup": 13}, {"warmup": -1}])
def test_a_spec_must_make_sense(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        TrainSpec(**{**SPEC.__dict__, **wrong})


def test_batches_depend_on_the_seed_and_the_step_alone() -> None:
    data = rows()
    for step in (0, 5):
        chosen = stream(9, step, 0, "batch").integers(0, len(data), size=4)
        assert torch.equal(batch_of(data, SPEC, 9, step), data[torch.from_numpy(chosen)])
    assert not torch.equal(batch_of(data, SPEC, 9, 0), batch_of(data, SPEC, 9, 1))


def test_training_is_adamw_with_clipped_gradients() -> None:
    """Step by step against torch's plain implementation, with an own clip."""
    ours, plain = (build(known("mha"), XS, 20, seed=1) for _ in range(2))
    trained = train(ours, rows(), SPEC, 7)
    parameters = list(plain.parameters())
    optimizer = torch.optim.AdamW(parameters, betas=BETAS, weight_decay=0, foreach=False, fused=False)
    losses = []
    for step in range(SPEC.steps):
        optimizer.zero_grad()
        loss = loss_of(plain, batch_of(rows(), SPEC, 7, step))
        loss.backward()
        norm = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None]).norm()
        for p in parameters:
            assert p.grad is not None
            p.grad *= min(1.0, CLIP / (norm.item() + 1e-6))
        optimizer.param_groups[0]["lr"] = SPEC.rate_at(step)
        optimizer.step()
        losses.append(loss.item())
    assert trained == pytest.approx(losses, abs=1e-4) and len(trained) == SPEC.steps
    for mine, theirs in zip(ours.parameters(), parameters, strict=True):
        assert torch.allclose(mine, theirs, atol=1e-3)  # AdamW makes rounding of tiny gradients as large as a step


def test_training_learns_and_repeats_to_the_bit() -> None:
    spec = TrainSpec(steps=60, batch=8, context=10, rate=2e-2, warmup=5)
    runs = [train(build(known("rope"), XS, 20, seed=1), rows(), spec, 7) for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0][0] > math.log(20)  # a fresh model expects the token that it sees, which is worse than chance
    assert runs[0][-1] < 1.0


def test_a_parameter_that_had_no_gradient_yet_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The optimizer has no moments of it."""

    class Waits(nn.Module):
        def __init__(self, dim: int, heads: int) -> None:
            super().__init__()
            self.early, self.late = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.ones(dim))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.early * (self.late if self.early[0] != 1 and self.early[0] < 0.99 else 1.0)

    monkeypatch.setattr(training, "SAVED", 2)
    whole = train(build(Waits, XS, 20, seed=0), rows(), SPEC, 0)
    for _ in range(2):  # begun, and gone on with from its last commit
        found = train(build(Waits, XS, 20, seed=0), rows(), SPEC, 0, state=tmp_path / "state.safetensors")
        assert found == whole


def test_a_loss_that_is_not_finite_ends_training() -> None:
    class Growing(nn.Module):
        def __init__(self, dim: int, heads: int) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return x * (math.nan if self.calls > 2 else 1.0)

    with pytest.raises(Rejected) as caught:
        train(build(Growing, XS, 20, seed=0), rows(), SPEC, 0)
    assert (caught.value.stage, caught.value.place) == ("train", "step 2")


def test_examples_must_have_the_length_of_the_spec() -> None:
    with pytest.raises(ValueError, match="an example has 10 tokens; context 10 needs 11"):
        train(build(known("mha"), XS, 20, seed=0), rows()[:, :-1], SPEC, 0)


# Cost


def test_products_are_counted_exactly() -> None:
    """2 operations for each weight and token, and those of the scores and their sums; backward is twice forward."""
    batch, context, vocab = 3, 16, 20
    for size in (XS, M):
        tokens = batch * context
        layer = 2 * tokens * 12 * size.dim**2 + 4 * batch * context**2 * size.dim
        wanted = 3 * (size.layers * layer + 2 * tokens * size.dim * vocab)
        cost = cost_of_step(known("mha"), size, vocab, batch, context)
        assert cost.products == wanted
        assert cost.parameters == non_embedding(build(known("mha"), size, vocab, 0))
        assert cost.flops == cost.products + cost.elements
        assert 0 < cost.elements < cost.products
        assert cost == cost_of_step(known("mha"), size, vocab, batch, context)


def changed(old: str, new: str) -> nn.Module:
    source = KNOWN["mha"].source
    assert old in source
    return loaded(source.replace(old, new))  # type: ignore[no-any-return]


SOFTMAX = 'F.softmax(scores.masked_fill(future, float("-inf")), dim=-1) @ v'


def test_work_cannot_be_hidden_from_the_count() -> None:
    """Fused attention counts as the plain one; a sum of elementwise products and a linear system count as well."""
    plain = cost_of_step(known("mha"), XS, 20, 2, 16)
    fused = changed(
        "        y = " + SOFTMAX,
        "        y = F.scaled_dot_product_attention(q, k, v, is_causal=True) + 0 * scores[..., :1]",
    )
    assert cost_of_step(fused, XS, 20, 2, 16).products > plain.products  # the unused scores count besides

    elementwise = changed("q @ k.transpose(-2, -1)", "(q[..., :, None, :] * k[..., None, :, :]).sum(-1)")
    spread = cost_of_step(elementwise, XS, 20, 2, 16)
    saved = plain.products - spread.products
    assert saved == 2 * 3 * 2 * 2 * 16**2 * 16  # layers, forward and backward, operations, batch, tokens, width
    assert spread.elements - plain.elements > saved / 3

    solved = changed("@ v", "@ torch.linalg.solve(torch.eye(x.shape[1]) + 0 * scores, v)")
    more = cost_of_step(solved, XS, 20, 2, 16).products - plain.products
    assert more > 2 * 2 * 2 * (2 / 3) * 16**3  # layers, batch, heads: a factorisation of each


def test_a_sum_of_overlapping_windows_counts_what_it_reads() -> None:
    def added(function: Callable[[Tensor], Tensor]) -> int:
        with Elements() as elements:
            function(torch.ones(2, 8, 32))
        written: int = elements.written
        return written

    windows = 2 * 8 * 17 * 16
    assert added(lambda x: x.unfold(2, 16, 1).sum(-1)) == 2 * 8 * 32 + windows
    assert added(lambda x: x.expand(5, 2, 8, 32).mean()) == 2 * 8 * 32 + 5 * 2 * 8 * 32
    assert added(lambda x: x.sum(-1)) == 2 * 8 * 32 + 2 * 8
    assert added(lambda x: x.unfold(2, 16, 1) + 1) == 2 * 8 * 32 + windows


def products_of(function: Callable[[Tensor], Tensor]) -> float:
    """Those that a layer of the model has for `function` of what comes in, [2, 8, 16]; nothing depends on it."""

    class Besides(nn.Module):
        def __init__(self, dim: int, heads: int, own: Callable[[Tensor], Tensor]) -> None:
            super().__init__()
            self.own = own

        def forward(self, x: Tensor) -> Tensor:
            return x + 0 * self.own(x).real.sum()

    def products(own: Callable[[Tensor], Tensor]) -> int:
        return cost_of_step(lambda dim, heads: Besides(dim, heads, own), XS, 20, 2, 8).products

    return (products(function) - products(torch.zeros_like)) / XS.layers


def square(x: Tensor) -> Tensor:
    return x[0, :, :8] + 9 * torch.eye(8)


def squares(x: Tensor) -> Tensor:
    return x[:, :, :8] + 9 * torch.eye(8)


def triangular(x: Tensor) -> Tensor:
    found: Tensor = torch.linalg.solve_triangular(squares(x), torch.eye(8), upper=True)
    return found


def fused(x: Tensor) -> Tensor:
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return F.scaled_dot_product_attention(x[None], x[None], x[None])


def sparse(x: Tensor) -> Tensor:
    found: Tensor = torch.sparse.mm(x[0].to_sparse(), x[1].T.to_sparse()).to_dense()
    return found


FORWARD: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
    "mv": (lambda x: x[0] @ x[0, 0], 2 * 8 * 16),
    "dot": (lambda x: x[0, 0] @ x[0, 1], 2 * 16),
    "addmv": (lambda x: torch.addmv(x[0, :, 0], x[0], x[0, 0]), 2 * 8 * 16),
    "addmm_": (lambda x: torch.zeros(8, 8).addmm_(x[0], x[1].T), 2 * 8 * 16 * 8),
    "addbmm": (lambda x: torch.addbmm(torch.zeros(8, 8), x, x.transpose(1, 2)), 2 * 2 * 8 * 16 * 8),
    "bilinear": (lambda x: F.bilinear(x[0], x[1], torch.ones(5, 16, 16)), 2 * 8 * 5 * 16 * 16),
    "sparse": (lambda x: torch.sparse.mm(x[0].T.to_sparse(), x[1]), 2 * 16 * 8 * 16),
    "bags": (lambda x: F.embedding_bag(torch.zeros(8, 8, dtype=torch.long), x[0], mode="sum"), 2 * 8 * 8 * 16),
    "fused attention": (fused, 2 * 2 * 2 * 8 * 8 * 16),
    "lstm": (lambda x: nn.LSTM(16, 16)(x)[0], 2 * 8 * (2 * 2 * 64 * 16 + 4 * 64)),
    "gru": (lambda x: nn.GRU(16, 16)(x)[0], 2 * 8 * 2 * 2 * 48 * 16),
    "rnn": (lambda x: nn.RNN(16, 16)(x)[0], 2 * 8 * 2 * 2 * 16 * 16),
    "cdist": (lambda x: torch.cdist(x, x), 3 * 2 * 8 * 8 * 16),
    "cdist of many": (lambda x: torch.cdist(x[0].repeat(4, 1), x[0]), 3 * 32 * 8 * 16),
    "pdist": (lambda x: torch.pdist(x[0]), 3 * 28 * 16),
    "fft": (lambda x: torch.fft.fft(torch.fft.ifft(x, dim=1), dim=1), 5 * 256 * 3 * (1 + 1 / 2)),
    "rfft": (lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=1), n=8, dim=1), 5 * 256 * 3),
    "average of a window": (lambda x: F.avg_pool1d(x, 5, 1), 2 * 8 * 12 * 5),
    "largest of a window": (lambda x: F.max_pool2d(x, 3, 1), 2 * 6 * 14 * 9),
    "average of a cube": (lambda x: F.avg_pool3d(x.view(1, 4, 8, 8), 3, 1), 2 * 6 * 6 * 27),
    "largest of a cube": (lambda x: F.max_pool3d(x.view(1, 4, 8, 8), 3, 1), 2 * 6 * 6 * 27),
    "sparse by sparse": (sparse, 2 * 8 * 16 * 8),
    "another layout": (lambda x: F.linear(x[0].to_mkldnn(), torch.ones(9, 16).to_mkldnn()).to_dense(), 2 * 8 * 16 * 9),
    "eig": (lambda x: torch.linalg.eig(square(x))[0], 25 * 8**3),
    "lstsq": (lambda x: torch.linalg.lstsq(x[0].T, x[1].T)[0], 2 * 16 * 8 * 8 + 5 * 16 * 8 * 8),
    "slogdet": (lambda x: torch.linalg.slogdet(square(x))[1], int(2 / 3 * 8**3)),
    "det": (lambda x: torch.linalg.det(square(x)), int(2 / 3 * 8**3)),
    "lu": (lambda x: torch.linalg.lu(square(x))[1], int(2 / 3 * 8**3)),
    "pinv": (lambda x: torch.linalg.pinv(x[0]), 24 * 8 * 8 * 16),
    "solve": (lambda x: torch.linalg.solve(square(x), x[0]), int(2 / 3 * 8**3 + 2 * 8 * 8 * 16)),
    "solve for one side": (lambda x: torch.linalg.solve(squares(x), torch.eye(8)), 2 * (2 / 3 + 2) * 8**3),
    "solve by one matrix": (lambda x: torch.linalg.solve(square(x), x), 2 / 3 * 8**3 + 2 * 2 * 8 * 8 * 16),
    "solve for a vector": (lambda x: torch.linalg.solve(squares(x), x[..., 0]), 2 * (2 / 3 * 8**3 + 2 * 8 * 8)),
    "triangular for one side": (triangular, 2 * 8**3),
    "triangular from the right": (
        lambda x: torch.linalg.solve_triangular(squares(x), x[:, :4, :8], upper=True, left=False),
        2 * 4 * 8 * 8,
    ),
    "cholesky_solve": (lambda x: torch.cholesky_solve(torch.eye(8), squares(x)), 2 * 2 * 8**3),
    "lu_solve": (
        lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(squares(x)), torch.eye(8)),
        2 * int(2 / 3 * 8**3) + 2 * 2 * 8**3,
    ),
    "lstsq of many": (
        lambda x: torch.linalg.lstsq(x.mT, x[..., 0].repeat(1, 2))[0],
        2 * (2 * 16 * 8 * 8 + 5 * 16 * 8),
    ),
    "cdist to one": (lambda x: torch.cdist(x[0], x, compute_mode="donot_use_mm_for_euclid_dist"), 3 * 2 * 8 * 8 * 16),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("name", FORWARD)
def test_what_does_much_for_each_number_is_counted(name: str) -> None:
    function, wanted = FORWARD[name]

    def apart(x: Tensor) -> Tensor:
        with torch.no_grad():
            return function(x)

    assert products_of(apart) == pytest.approx(wanted, abs=1)


def test_backward_is_twice_forward() -> None:
    """Of a recurrent layer, of sums of products of three, and of convolutions in groups, each way round."""
    single = 2 * 2 * 8 * 16 * 3
    cases: tuple[tuple[Callable[[Tensor], Tensor], float], ...] = (
        (lambda x: nn.LSTM(16, 16)(x)[0], FORWARD["lstm"][1]),
        (lambda x: nn.Bilinear(16, 16, 5, bias=False)(x[0], 1 + x[0].detach()), FORWARD["bilinear"][1]),
        (lambda x: F.conv1d(x.mT, nn.Parameter(torch.ones(16, 1, 3)), padding=1, groups=16), single),
        (lambda x: F.conv1d(x.mT, nn.Parameter(torch.ones(16, 4, 3)), padding=1, groups=4), 4 * single),
        (lambda x: F.conv1d(x.mT, nn.Parameter(torch.ones(16, 16, 3)), padding=1), 16 * single),
        (lambda x: F.conv_transpose1d(x.mT, nn.Parameter(torch.ones(16, 1, 3)), groups=16), single),
    )
    for function, forward in cases:
        assert products_of(function) == 3 * forward
    pooled, forward = FORWARD["average of a cube"]  # each number goes back to where it came from
    assert products_of(pooled) == 2 * forward


# A training that is killed


def dies_at(end: int) -> Callable[..., Tensor]:
    """`batch_of`, until its process is killed."""

    def batch(rows: Tensor, spec: TrainSpec, seed: int, step: int) -> Tensor:
        if step == end:
            raise KeyboardInterrupt
        return batch_of(rows, spec, seed, step)

    return batch


@pytest.mark.parametrize("died", [3, 4, 7, 10])
def test_a_killed_training_ends_as_if_nothing_had_been(
    died: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program with buffers, one of them expanded, and with random numbers of its own."""
    monkeypatch.setattr(training, "SAVED", 2)
    attention = loaded(KNOWN["mha"].source)

    def trained(state: Path | None) -> tuple[list[float], list[Tensor]]:
        torch.manual_seed(0)
        model = build(lambda dim, heads: nn.Sequential(nn.Dropout(0.1), attention(dim, heads)), XS, 20, seed=1)
        model.register_buffer("kept", torch.ones(3))
        model.register_buffer("expanded", torch.arange(3.0)[:, None].expand(3, 4))
        losses = train(model, rows(), SPEC, 5, state)
        return losses, [tensor.detach() for tensor in (*model.parameters(), *model.buffers())]

    whole = trained(None)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(training, "batch_of", dies_at(died + 1))
        trained(tmp_path / "state.safetensors")
    torch.rand(9)
    losses, tensors = trained(tmp_path / "state.safetensors")
    assert losses == whole[0] and all(map(torch.equal, tensors, whole[1]))
