"""What a framework is: a program file of which one block may change."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Framework:
    """One way to write attention.

    source  the text of its template, which as it stands is causal softmax attention
    slots   the classes that stand in the block, in their order
    rules   what may, must and must not change, one plain sentence each; proposers read them
    """

    name: str
    source: str
    slots: tuple[str, ...]
    rules: tuple[str, ...]
