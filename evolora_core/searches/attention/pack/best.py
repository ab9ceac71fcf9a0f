"""The best program that a suite's searches found, as a file that runs without Evolora."""

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from evolora_core.errors import PackError
from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import rows_of
from evolora_core.searches.attention.frameworks.registry import get_framework
from evolora_core.searches.attention.pack.plotted import paired
from evolora_core.searches.attention.programs.block import block_of

FILE = "best_program.py"
WIDTH = 118  # of a line of the header
WRITTEN = "A language model wrote it, and nothing confines it here: read it before you run it."

# What stands below a program: at most ten lines.
TRAINING = """

if __name__ == "__main__":  # a small language model of bytes around one layer of it
    import sys; torch.manual_seed(0)
    text = torch.tensor(list(open(sys.argv[1], "rb").read()))
    token, place, layer, head = nn.Embedding(256, 64), nn.Embedding(64, 64), Attention(64, 4), nn.Linear(64, 256)
    optimizer = torch.optim.AdamW(nn.ModuleList([token, place, layer, head]).parameters(), lr=0.002)
    for _ in range(300):
        rows = text[torch.randint(len(text) - 64, (16, 1)) + torch.arange(65)]  # 16 rows of 64 bytes, and one more each
        x = token(rows[:, :-1]) + place.weight * getattr(Attention, "positions", True)
        (loss := F.cross_entropy(head(x + layer(F.layer_norm(x, (64,)))).mT, rows[:, 1:])).backward()
        optimizer.step(), optimizer.zero_grad()
    print(f"{loss.item():.3f} nats a byte after 300 steps")
"""

_ARMS = """
    SELECT arm, framework, size, measured FROM attention_table WHERE suite = $suite AND programs > 0
    ORDER BY measured DESC NULLS LAST, score DESC NULLS LAST, arm
"""
_CHOSEN = """
    SELECT c.candidate, c.score, p.program_id, p.source, c.operator LIKE 'ask:%' AS written
    FROM candidate AS c JOIN attention_program AS p
        ON p.run_id = c.run_id AND p.candidate = c.candidate
    WHERE c.suite = $suite AND c.condition = $arm AND c.seed = $seed AND p.chosen
"""


@dataclass(frozen=True)
class Best:
    """What a search found: the program of the best run seed of the best arm. gain, arm_gain: over the baseline at
    `size`, on fresh seeds and unseen texts, of the run seed and of all of the arm's (nats). written: by a language
    model.
    """

    arm: str
    seed: int
    run_seeds: int
    framework: str
    candidate: int
    program_id: str
    source: str
    size: str
    gain: float
    arm_gain: float
    written: bool

    @property
    def changes(self) -> list[tuple[str, str]]:
        """Each class of the block that is not the baseline's, with what its docstring says of it."""
        plain = {name: ast.dump(own) for name, own in _classes(get_framework(self.framework).source)}
        found = [(name, own) for name, own in _classes(self.source) if ast.dump(own) != plain.get(name)]
        return [(name, " ".join((ast.get_docstring(own) or "see its code").split())) for name, own in found]


def best_of(stored: StoredSuite) -> Best | None:
    """The best searched arm's best run seed; None without searches. PackError where the program cannot be found."""
    rows = stored.frame(_ARMS).to_dict("records")
    if not rows:
        return None
    top = rows[0]
    gains = paired(stored)
    own = gains[(gains["arm"] == top["arm"]) & (gains["size"] == top["size"])].groupby("run_seed")["gain"].mean()
    seed = int(own.idxmax())
    found = chosen_of(stored, top["arm"], seed)
    return Best(
        arm=top["arm"],
        seed=seed,
        run_seeds=len(own),
        framework=top["framework"],
        candidate=int(found["candidate"]),
        program_id=str(found["program_id"]),
        source=str(found["source"]),
        size=top["size"],
        gain=float(own[seed]),
        arm_gain=float(top["measured"]),
        written=bool(found["written"]),
    )


def chosen_of(stored: StoredSuite, arm: str, seed: int) -> dict[str, Any]:
    """The candidate that the search of an arm and run seed chose: candidate, score, program_id, source, written."""
    rows = rows_of(stored.frame(_CHOSEN, arm=arm, seed=seed))
    if len(rows) != 1:
        raise PackError(f"{stored.suite}: {arm} s{seed} has {len(rows)} chosen programs instead of one; run it again")
    return rows[0]


def program_file(stored: StoredSuite) -> str:
    """The text of `best_program.py`; empty where nothing was searched."""
    best = best_of(stored)
    return "" if best is None else f"{_header(stored, best)}\n{best.source.rstrip(chr(10))}\n{TRAINING}"


def _header(stored: StoredSuite, best: Best) -> str:
    """What a reader of the file must know, as comments."""
    many = best.run_seeds > 1
    parts = [
        f"The best attention mechanism that the searches of the suite {stored.suite} found.",
        "",
        f"Arm {best.arm}, run seed {best.seed}{', its best by the gain below' if many else ''}: "
        f"candidate {best.candidate} of its search ({best.program_id}), framework {best.framework}.",
        f"Gain over softmax attention at size {best.size}: {best.gain:+.4f} nats of a held-out token, on texts and "
        "training seeds that the search never saw."
        + (f" The mean of the arm over its {best.run_seeds} run seeds is {best.arm_gain:+.4f}." if many else ""),
        "What it changes of softmax attention:",
        *(f"- {name}: {says}" for name, says in best.changes or [("nothing", "it is softmax attention")]),
        "",
        f"It needs torch alone. `python {FILE} FILE.txt` trains a small model with it and prints the loss.",
        *([WRITTEN] if best.written else []),
    ]
    lines = [
        line
        for part in parts
        for line in textwrap.wrap(part, WIDTH, subsequent_indent="  " * part.startswith("-")) or [""]
    ]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def _classes(source: str) -> Iterator[tuple[str, ast.ClassDef]]:
    return ((own.name, own) for own in ast.parse(block_of(source)).body if isinstance(own, ast.ClassDef))
