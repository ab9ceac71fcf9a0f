"""The text of a program: its block, what makes two texts one program, and what is refused unread."""

import sys
from collections.abc import Callable
from functools import partial

import pytest
import torch
from searches.attention.attention_programs import loaded

from evolora_core.searches.attention.frameworks.registry import FRAMEWORKS
from evolora_core.searches.attention.known.registry import KNOWN
from evolora_core.searches.attention.programs.block import block_of, check_outside, with_block
from evolora_core.searches.attention.programs.normal import normalised, program_id
from evolora_core.searches.attention.programs.rejection import Rejected, Rejection
from evolora_core.searches.attention.programs.static import MOST_CHARACTERS, check_syntax

FRAMEWORK = FRAMEWORKS["coefficient-dynamics"]
START, END = "# EVOLVE-BLOCK-START\n", "# EVOLVE-BLOCK-END\n"


def refused(check: Callable[[], object]) -> Rejection:
    with pytest.raises(Rejected) as caught:
        check()
    return caught.value.rejection


# The block


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda text: text.replace(START, ""), "START is missing"),
        (lambda text: text.replace(END, ""), "END is missing"),
        (lambda text: text.replace(START, START + START), "more than one line with EVOLVE-BLOCK-START"),
        (lambda text: text + START + END, "more than one line with EVOLVE-BLOCK-START"),
        (lambda text: text.replace(START, "~").replace(END, START).replace("~", END), "END stands before"),
    ],
)
def test_there_must_be_one_block(edit: Callable[[str], str], says: str) -> None:
    broken = edit(FRAMEWORK.source)
    for check in (lambda: block_of(broken), lambda: check_outside(broken, FRAMEWORK)):
        rejection = refused(check)
        assert rejection.stage == "markers" and says in rejection.reason


def test_markers_cannot_be_hidden_in_a_block() -> None:
    doubled = with_block(FRAMEWORK, "x = 1\n" + END + START + "y = 2\n")
    assert refused(lambda: check_outside(doubled, FRAMEWORK)).stage == "markers"


def test_a_block_may_change_and_nothing_else() -> None:
    changed = with_block(FRAMEWORK, "x = 1")
    assert block_of(changed) == "x = 1\n"
    check_outside(changed, FRAMEWORK)
    longer = with_block(FRAMEWORK, "x = 1\n" * 40)
    lines = longer.split("\n")
    for old, new in (
        ("import math\n", "import math  \n"),
        ("nn.Linear(dim, dim)\n        self.core", "nn.Linear(dim, 2 * dim)\n        self.core"),
        ("torch.tril(", "torch.triu("),
        ("        return self.out", "        y = y + 1\n        return self.out"),
        ("import math\n", "import math\r\n"),
        ("import math\n\n", "import math\n\x0c\n"),
    ):
        other = longer.replace(old, new)
        assert other != longer
        rejection = refused(partial(check_outside, other, FRAMEWORK))
        number = next(i for i, (a, b) in enumerate(zip(other.split("\n"), lines, strict=False), 1) if a != b)
        assert (rejection.stage, rejection.place) == ("markers", f"line {number}")
    assert "missing" in refused(lambda: check_outside(longer[: longer.rindex("        return")], FRAMEWORK)).reason
    assert "does not have" in refused(lambda: check_outside(longer + "x = 1\n", FRAMEWORK)).reason


# Equal programs

PROGRAM = '''
"""What it does."""
import torch
from torch import Tensor, nn

_WIDTH = 3


class Attention(nn.Module):
    """Says."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.part: nn.Linear = nn.Linear(dim, dim, bias=False)

    def helped(self, z: Tensor) -> Tensor:
        return z * _WIDTH

    def forward(self, x: Tensor) -> Tensor:
        # a remark
        first = self.part(x)
        second = [self.helped(item) for item in first.unbind(0)]
        return torch.stack(second) + first
'''


@pytest.mark.parametrize(
    "changes",
    [
        [("# a remark", "# another")],
        [('"""Says."""', '"""Says\n    more."""')],
        [('    """Says."""\n', "")],
        [("first", "one"), ("second", "first"), ("item", "each")],
        [("_WIDTH", "_w")],
        [("(self, z: Tensor) -> Tensor:\n        return z", "(self, q):\n        return q")],
        [("self.part: nn.Linear =", "self.part =")],
        [("torch.stack(second) + first", "(torch.stack(second)\n            + first)")],
        [("= self.part(x)", "= self.part(x)\n        pass")],
    ],
)
def test_taste_does_not_make_another_program(changes: list[tuple[str, str]]) -> None:
    text = PROGRAM
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    assert program_id(text) == program_id(PROGRAM)


@pytest.mark.parametrize(
    "changes",
    [
        [("_WIDTH = 3", "_WIDTH = 4")],
        [("+ first", "+ x")],
        [("bias=False", "bias=True")],
        [("self.part", "self.other")],  # the name of a parameter is in the model's state
        [("def helped", "def helper")],  # somebody may call it
        [("dim: int, heads: int", "heads: int, dim: int")],
        [("(self, x: Tensor) -> Tensor:\n        # a", "(self, z: Tensor) -> Tensor:\n        # a"), ("(x)", "(z)")],
    ],
)
def test_what_may_matter_makes_another(changes: list[tuple[str, str]]) -> None:
    text = PROGRAM
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    assert program_id(text) != program_id(PROGRAM)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # Names of arguments matter where a call uses them.
        ("def f(a, b):\n    return a - b\nf(a=1, b=2)", "def f(b, a):\n    return b - a\nf(a=1, b=2)"),
        # A local that hides something of the module, and one that hides nothing.
        ("y = 1\ndef f():\n    y = 2\n    return y", "y = 1\ndef f():\n    z = 2\n    return y"),
        (
            "def f(a):\n    def g():\n        return a\n    return g",
            "def f(a):\n    def g():\n        return b\n    return g",
        ),
        ("def f():\n    sum = 1\n    return sum", "def f():\n    s = 1\n    return sum"),
        ("def f(x):\n    ν0 = x\n    return ν1", "def f(x):\n    a = x\n    return a"),
        ("def f():\n    class C:\n        def one(self): pass", "def f():\n    class C:\n        def two(self): pass"),
    ],
)
def test_renaming_does_not_make_different_programs_one(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)


@pytest.mark.parametrize("name", [*KNOWN, *FRAMEWORKS])
def test_a_normalised_program_computes_the_same(name: str) -> None:
    source = KNOWN[name].source if name in KNOWN else FRAMEWORKS[name].source
    text = normalised(source)
    assert normalised(text) == text
    ours, plain = (loaded(written)(16, 2) for written in (source, text))
    plain.load_state_dict(ours.state_dict())
    x = torch.randn(2, 5, 16)
    assert torch.equal(ours(x), plain(x))


def test_ids_are_short_and_differ() -> None:
    ids = {program_id(known.source) for known in KNOWN.values()}
    assert len(ids) == len(KNOWN) and {len(found) for found in ids} == {16}


def test_what_does_not_parse_is_refused_with_its_line() -> None:
    assert refused(lambda: program_id("x = 1\ny = (")) == Rejection(
        "syntax", "the text does not parse: '(' was never closed", "line 2"
    )
    assert refused(lambda: program_id("x = 1\0")).stage == "syntax"
    assert refused(lambda: program_id("x = " + "-" * 5000 + "1")).stage == "syntax"


# Python 3.11 writes no f-string that holds a backslash within braces, and writes a no-break space with one.
UNWRITTEN = ["x = 0x" + "f" * 5000] + (["x = f\"{'\u00a0'}\""] if sys.version_info < (3, 12) else [])


@pytest.mark.parametrize("source", UNWRITTEN, ids=["digits", "f-string"][: len(UNWRITTEN)])
def test_what_python_cannot_write_is_refused(source: str) -> None:
    assert "cannot write the text anew" in refused(lambda: program_id(source)).reason


# What is refused unread


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("import os", "`os` may not be imported"),
        ("import torch, numpy", "`numpy` may not be imported"),
        ("from os import path", "`os` may not be imported"),
        ("from . import x", "`.` may not be imported"),
        ("from torch.utils import data", "`torch.utils` may not be imported"),
        ("from torch import hub", "`hub` may not be imported from torch"),
        ("from torch import *", "`*` may not be imported from torch"),
        ("from torch import set_num_threads", "may not be imported from torch"),
        ("from torch import _C", "`_C` may not be imported from torch"),
        ("x = open('f')", "`open` is not allowed"),
        ("x = eval('1')", "`eval` is not allowed"),
        ("x = __import__('os')", "`__import__` is not allowed"),
        ("x = globals()", "`globals` is not allowed"),
        ("x = np.ones(3)", "the name `np` is not defined"),
        ("x = ().__class__", "`.__class__` is not allowed"),
        ("x = torch._C", "`._C` is private"),
        ("x = torch.load('f')", "`.load` is not allowed"),
        ("match torch:\n    case object(load=x): pass", "`.load` is not allowed"),
        ("match torch:\n    case object(nn=1, _C=x): pass", "`._C` is private"),
        ("match (1, [2]):\n    case (1, [int(__class__=x)]): pass", "`.__class__` is not allowed"),
        ("x = nn.Module.forward.__globals__", "`.__globals__` is not allowed"),
        ("torch.manual_seed(0)", "`.manual_seed` is not allowed"),
        ("torch.set_default_dtype(torch.float64)", "`.set_default_dtype` is not allowed"),
        ("x = torch.ones(3).to_sparse()", "`.to_sparse` is not allowed"),
        ("x = torch.ones(3).to_mkldnn()", "`.to_mkldnn` is not allowed"),
        ("x = getattr(torch, '_C')", "getattr and hasattr are allowed with"),
        ("x = getattr(torch, 'lo' + 'ad')", "getattr and hasattr are allowed with"),
        ("x = '{0.__class__}'", "two underscores"),
        ("x = '{}'.format(1)", "`.format` is not allowed"),
        ("def f():\n    global x", "`global` is not allowed"),
        ("def f():\n    yield 1", "`yield` is not allowed"),
        ("async def f(): pass", "`async def` is not allowed"),
        ("class A:\n    def __del__(self): pass", "`__del__` may not be defined"),
    ],
)
def test_a_line_that_no_program_needs(line: str, says: str) -> None:
    rejection = refused(lambda: check_syntax("import math\nimport torch\nfrom torch import nn\n" + line))
    assert rejection.stage == "syntax" and says in rejection.reason
    assert rejection.place == f"line {4 + line.count(chr(10))}"


def test_a_pattern_may_name_what_an_attribute_may() -> None:
    check_syntax("match 1:\n    case complex(real=1, imag=part): x = part")


def test_the_first_fault_is_named() -> None:
    assert refused(lambda: check_syntax("x = 1\nimport os\nimport sys\n")).place == "line 2"


def test_long_and_deep_texts_are_refused() -> None:
    assert "characters" in refused(lambda: check_syntax("#" * (MOST_CHARACTERS + 1))).reason
    assert "nested" in refused(lambda: check_syntax("x = 1\ny = " + "-" * 150 + "1")).reason


@pytest.mark.parametrize("name", KNOWN)
def test_known_programs_pass(name: str) -> None:
    check_syntax(KNOWN[name].source)
    assert len(KNOWN[name].source.splitlines()) <= 70


def test_a_rejection_has_a_known_stage() -> None:
    assert str(Rejected("causality", "it looks ahead", "position 3")) == "causality: it looks ahead (position 3)"
    assert str(Rejection("memory", "too much")) == "memory: too much"
    with pytest.raises(ValueError, match="none of syntax, markers"):
        Rejected("luck", "none")
