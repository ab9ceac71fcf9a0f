"""What a grammar is: genes, each with a few choices, and the text of the program that they stand for.

The first choice of every gene is the baseline's: the genome of first choices is the framework's template itself.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from evolora_core.errors import ConfigError

Genome: TypeAlias = Mapping[str, str]  # gene -> choice; every gene of the grammar is in it

SLOTS = ("prepare", "core", "finish")  # the classes of a block, in their order


@dataclass(frozen=True)
class Gene:
    """One decision within a slot.

    says  what each choice does, in words; the baseline's comes first
    """

    name: str
    slot: str
    says: Mapping[str, str]

    @property
    def choices(self) -> tuple[str, ...]:
        """The names of the choices, the baseline's first."""
        return tuple(self.says)


@dataclass(frozen=True)
class Grammar:
    """All programs that a framework's genes can make.

    framework  its name
    render     (genome) -> text of the program; called with a whole, valid genome
    """

    framework: str
    genes: tuple[Gene, ...]
    render: Callable[[Genome], str]

    def baseline(self) -> dict[str, str]:
        """The genome of first choices."""
        return {gene.name: gene.choices[0] for gene in self.genes}

    def check(self, genome: Genome) -> dict[str, str]:
        """The genome with its genes in the grammar's order. ConfigError, one line, for what is not one."""
        known = {gene.name: gene for gene in self.genes}
        for name in (*genome, *known):
            if name not in known:
                raise ConfigError(f"genome: {self.framework} has no gene {name!r}; it has {', '.join(known)}")
            if name not in genome:
                raise ConfigError(f"genome: the gene {name!r} is missing; choose one of {', '.join(known[name].says)}")
            if genome[name] not in known[name].says:
                raise ConfigError(f"genome: {name}: {genome[name]!r} is none of {', '.join(known[name].says)}")
        return {name: genome[name] for name in known}

    def program(self, genome: Genome) -> str:
        """The text of the program of a genome, the same each time."""
        return self.render(self.check(genome))


def genome_json(genome: Genome) -> str:
    """The canonical text of a genome: equal genomes, equal texts."""
    return json.dumps(dict(genome), sort_keys=True, separators=(",", ":"))
