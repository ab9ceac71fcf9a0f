"""What a nursery loads before it confines anybody, because a confined child cannot read the standard library.

Torch loads some of its modules, and with them some of the standard library, when they are first used: an optimizer
brings in its compiler. Doing once what programs do makes them load here; it costs each child nothing.
"""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

# What a program, or the code that trains it, may use and torch loads late.
_LATE = (
    "safetensors.torch",
    "torch.distributions",
    "torch.fft",
    "torch.func",
    "torch.linalg",
    "torch.nn.attention",
    "torch.nn.utils.parametrizations",
    "torch.optim.lr_scheduler",
    "torch.special",
    "torch.utils.checkpoint",
    "torch.utils.flop_counter",
)
_LIBRARIES = ("numpy", "safetensors", "torch")


def load(modules: Sequence[str]) -> None:
    """Imports the modules; torch is also used once, on one thread."""
    for name in modules:
        importlib.import_module(name)
    if "torch" in sys.modules:
        for name in _LATE:
            importlib.import_module(name)
        _train_once()


def _train_once() -> None:
    import torch
    from torch.nn import functional
    from torch.utils.flop_counter import FlopCounterMode

    torch.set_num_threads(1)  # before anything is computed: a fork copies no other thread
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Conv1d(3, 3, 2), torch.nn.LayerNorm(3))
    optimizer = torch.optim.AdamW(model.parameters())
    with FlopCounterMode(display=False):
        x = model(torch.zeros(2, 3, 4))
        functional.scaled_dot_product_attention(x, x, x, is_causal=True).sum().backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    torch.func.jacrev(lambda row: torch.einsum("i,i->", row, row))(torch.ones(2))


def readable() -> tuple[Path, ...]:
    """The folders of libraries that a child may read: those that are loaded. None of them holds a corpus' sources."""
    files = (getattr(sys.modules.get(name), "__file__", None) for name in _LIBRARIES)
    return tuple(Path(file).resolve().parent for file in files if file)


def loaded() -> list[str]:
    """The source files of all modules that are in memory, and so before the eyes of every child."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return sorted({str(Path(file).resolve()) for file in files if isinstance(file, str)})
