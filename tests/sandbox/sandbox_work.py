"""What honest programs do with torch, as entries of children."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file


def train(folder: Path) -> None:
    """A causal attention layer that learns to copy; AdamW, clipping, a schedule, counted FLOPs, tensors on disk."""
    from torch.utils.flop_counter import FlopCounterMode

    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    x, mask, losses = torch.randn(4, 5, 8), torch.ones(5, 5).triu(1).bool(), []
    for _ in range(20):
        optimizer.zero_grad()
        with FlopCounterMode(display=False) as counter:
            loss = (layer(x, x, x, attn_mask=mask)[0] - x).square().mean()
            loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    save_file({"logits": layer(x, x, x)[0].detach().contiguous()}, folder / "logits.safetensors")
    report = {"losses": losses, "flops": counter.get_total_flops(), "threads": torch.get_num_threads()}
    (folder / "result.json").write_text(json.dumps(report), encoding="utf-8")


def many_operators(folder: Path) -> None:
    """Operators that load something when they are first used."""
    functional = torch.nn.functional
    x = torch.randn(2, 3, 8, 4, requires_grad=True)
    functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    functional.conv1d(torch.randn(2, 4, 9), torch.randn(4, 1, 3), groups=4)
    torch.fft.irfft(torch.fft.rfft(torch.randn(8)))
    torch.linalg.solve(torch.eye(3), torch.randn(3, 1))
    torch.linalg.qr(torch.randn(3, 3))
    torch.einsum("bhtd,bhsd->bhts", x, x).softmax(-1).logcumsumexp(-1)
    torch.func.vmap(torch.func.grad(lambda row: row.square().sum()))(torch.randn(3, 4))
    torch.autograd.functional.jacobian(lambda row: row.cumsum(0), torch.randn(4))
    torch.utils.checkpoint.checkpoint(lambda row: row.exp(), x, use_reentrant=False)
    torch.nn.RMSNorm(4)(x), torch.nn.GRU(4, 4)(torch.randn(2, 3, 4)), torch.nn.GELU()(x)
    torch.distributions.Categorical(logits=torch.zeros(3)).sample()
    torch.set_num_threads(2)
    (torch.randn(300, 300) @ torch.randn(300, 300)).sum().item()


def take_3_gigabytes(folder: Path) -> None:
    torch.ones(3 << 28, dtype=torch.float32)


def draw_by_chance(folder: Path) -> None:
    torch.seed()
