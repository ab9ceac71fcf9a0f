"""Programs that cheat or fail, each in its own way, and the stage at which that has to come to light.

The first three are the kinds of leak with which results were published in 2026.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Attack:
    """A program, the stage that refuses it, and words that the reason or the place has to hold."""

    source: str
    stage: str
    says: str


_FILE = """
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

{names}

class Attention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
{parts}

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        q, k, v = (f(x).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
{before}
        future = torch.ones(t, t, dtype=torch.bool).triu(1)
        alpha = F.softmax((q @ k.transpose(2, 3) / math.sqrt(d // self.heads)).masked_fill(future, -math.inf), dim=-1)
        y = (alpha @ v).transpose(1, 2).reshape(b, t, d)
{after}
        return self.out(y)
"""


def program(parts: str = "", before: str = "", after: str = "", names: str = "") -> str:
    """Softmax attention with lines added to its constructor, before and after the attention, and to the file."""
    indented = {name: _indent(text) for name, text in (("parts", parts), ("before", before), ("after", after))}
    return _FILE.format(names=names, **indented)


def _indent(text: str) -> str:
    return "\n".join(" " * 8 + line for line in text.splitlines())


HONEST = program()

BLOCKS_OF_64 = """
blocks = F.pad(v, (0, 0, 0, -t % 64)).unflatten(2, (-1, 64)).mean(dim=3)
v = v + blocks.repeat_interleave(64, dim=2)[:, :, :t]
"""
CHUNKS_OF_16 = """
whole = F.pad(k.unsqueeze(-1) * v.unsqueeze(-2), (0, 0, 0, 0, 0, -t % 16))
states = whole.unflatten(2, (-1, 16)).sum(dim=3).cumsum(dim=2).repeat_interleave(16, dim=2)[:, :, :t]
v = v + (q.unsqueeze(-2) @ states).squeeze(-2)
"""
SPECTRAL = """
q, k = (torch.fft.irfft(torch.fft.rfft(z, n=t, dim=2) * torch.exp(-torch.arange(t // 2 + 1))[:, None], n=t, dim=2)
        for z in (q, k))
"""

ROWS_OF_16 = """
if b % 16 == 0:
    v = v + v.mean(dim=0, keepdim=True).detach().cumsum(dim=2)
"""

MORE_WORK = """
if {}:
    for _ in range(200):
        y = y + 0.01 * torch.tanh(self.out(y))
"""

ATTACKS: dict[str, Attack] = {
    "summaries of 64-token blocks": Attack(program(before=BLOCKS_OF_64), "causality", "depends on position"),
    "states of 16-token chunks": Attack(program(before=CHUNKS_OF_16), "causality", "depends on position"),
    "spectral filters of Q and K": Attack(program(before=SPECTRAL), "causality", "depends on position"),
    "the next token": Attack(
        program(before="v = v + F.pad(v, (0, 0, 0, 1))[:, :, 1:]"), "causality", "position 0 depends on position 1,"
    ),
    "a detached mean of the whole text": Attack(
        program(after="y = y - x.mean(dim=1, keepdim=True).detach()"), "causality", "the output there changes"
    ),
    "division by the length": Attack(program(after="y = y / t"), "causality", "how long the text is"),
    "a leak in texts of 64 tokens alone": Attack(
        program(before="v = v + v.mean(dim=2, keepdim=True) if t == 64 else v"), "causality", "of 64"
    ),
    "a leak behind a gate that starts at zero": Attack(
        program("self.gate = nn.Parameter(torch.zeros(1))", "v = v + self.gate * v.mean(dim=2, keepdim=True)"),
        "causality",
        "depends on position",
    ),
    "a leak from the last token to the one before": Attack(
        program(after="y = torch.cat([y[:, :-2], y[:, -2:-1] + y[:, -1:], y[:, -1:]], dim=1) if t > 1 else y"),
        "causality",
        "position 5 depends on position 6, of 7",
    ),
    "a counter across calls": Attack(
        program("self.calls = 0", "self.calls += 1"), "shapes", "forward changes the attribute calls"
    ),
    "a counter in the file": Attack(program(before="CALLS.append(1)", names="CALLS = [0]"), "shapes", "name CALLS"),
    "a counter that counts while it trains": Attack(
        program("self.calls = 0", "self.calls += int(self.training)"), "shapes", "attribute calls"
    ),
    "a lookup table in a buffer": Attack(
        program('self.register_buffer("table", torch.zeros(4096, 64))'), "build", "262144 numbers"
    ),
    "a lookup table in a list": Attack(program("self.table = [torch.zeros(4096, 64)]"), "build", "262144 numbers"),
    "a memory in a buffer": Attack(
        program('self.register_buffer("seen", torch.zeros(16))', "self.seen[0] += float(x[0, 0, 0])"),
        "shapes",
        "forward changes the buffer seen",
    ),
    "a parameter that learns unseen": Attack(
        program("self.extra = [nn.Linear(dim, dim)]", after="y = y + self.extra[0](y)"), "build", "learns but is no"
    ),
    "a look at other rows": Attack(
        program(before="v = v - v.mean(dim=0, keepdim=True).detach()"), "shapes", "content of other rows"
    ),
    "work that is done where nobody counts it": Attack(
        program(after="if not self.training:\n    for _ in range(40):\n        y = y + 0.01 * self.out(x + y)"),
        "shapes",
        "training mode gives something else than evaluation",
    ),
    "work that is done where nobody counts it, at short lengths too": Attack(
        program(after=MORE_WORK.format("not (self.training and t > 17)")),
        "shapes",
        "training mode gives something else than evaluation",
    ),
    "random numbers": Attack(program(after="y = F.dropout(y, 0.1, self.training)"), "shapes", "draws random numbers"),
    "NaN": Attack(program(after="y = y * torch.where(x[..., :1] > 1, math.nan, 1.0)"), "shapes", "NaN or infinity"),
    "another shape": Attack(program(after="return y[..., :-1]"), "shapes", "[1, 1, 15] instead of float32 [1, 1, 16]"),
    "an error at one length": Attack(program(after="y = y.view(b, 64, d) if t > 99 else y"), "shapes", "line 2"),
    "a value that no gradient reaches": Attack(
        program("self.scale = nn.Parameter(torch.ones(1))", after="y = y * self.scale.item()"),
        "gradients",
        "the parameter scale",
    ),
    "most numbers of a parameter left alone": Attack(
        program("self.extra = nn.Parameter(torch.ones(900))", after="y = y + self.extra[:d]"), "gradients", "extra"
    ),
    "a detached input": Attack(
        program(before="x = x.detach()\nq, k, v = q.detach(), k.detach(), v.detach()"), "gradients", "input"
    ),
    "a file that is read": Attack(program(before='open("/etc/passwd").read()'), "syntax", "open"),
    "labels that are read": Attack(program(before='torch.load("../texts.safetensors")'), "syntax", "load"),
    "a socket": Attack(program(names="import socket"), "syntax", "socket"),
    "a fork": Attack(program(names="import os\nos.fork()"), "syntax", "os"),
    "no text of Python": Attack("def (", "syntax", "line 1"),
    "another constructor": Attack(
        HONEST.replace("heads: int", "heads: int, depth: int = 1"), "signature", "(self, dim, heads, depth)"
    ),
    "another forward": Attack(HONEST.replace("x: Tensor)", "x: Tensor, future: Tensor)"), "signature", "future"),
    "no class": Attack(HONEST.replace("class Attention", "class Other"), "signature", "no class Attention"),
    "a division by zero when it is made": Attack(program("self.scale = 1 / (heads - 4)"), "build", "ZeroDivisionError"),
    "another torch": Attack(program(names="F.gelu = F.relu"), "build", "torch.nn.functional.gelu"),
    "another feed-forward layer": Attack(
        program(names="nn.Sequential.forward = lambda self, x: x"), "build", "torch.nn.Sequential.forward"
    ),
    "a hook in every module": Attack(
        program(names="nn.modules.module.register_module_forward_hook(lambda module, given, found: None)"),
        "build",
        "torch's settings",
    ),
    "too many parameters": Attack(
        program("self.more = nn.Linear(dim, 2 * dim)", after="y = y + self.more(x)[..., :d] + self.more(x)[..., d:]"),
        "cost",
        "times the baseline's parameters",
    ),
    "too many operations": Attack(
        program(after="y = y + 0 * (torch.ones(t, 4096) @ torch.ones(4096, d))"),
        "cost",
        "times the baseline's FLOPs",
    ),
    "numbers that overflow": Attack(
        program("self.scale = nn.Parameter(torch.full((1,), 0.5))", after="y = y * torch.exp(3000 * self.scale.abs())"),
        "shapes",
        "infinity",
    ),
}
