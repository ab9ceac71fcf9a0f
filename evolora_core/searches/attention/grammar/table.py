"""The grammar of the exhaustive table: 576 programs of coefficient dynamics, few enough to train every one.

Its genes are those of which people report effects on small models: where positions come from, the scale of queries and
keys, a look at the token before, the read-out, how the past is left behind, an output gate.
"""

from evolora_core.searches.attention.grammar import coefficient_dynamics as full
from evolora_core.searches.attention.grammar.genes import Gene, Genome, Grammar

CHOICES = {  # 3 x 2 x 3 x 2 x 2 x 4 x 2
    "position": ("sinusoids", "rope", "none"),
    "qk-norm": ("none", "norm"),
    "local": ("none", "shift-kv", "conv"),
    "kernel": ("exp", "elu"),
    "normaliser": ("sum", "one-more"),
    "evolution": ("none", "fixed", "gate", "delta"),
    "gate": ("none", "silu"),
}


def render(genome: Genome) -> str:
    """The program that the whole grammar makes of the same choices."""
    return full.GRAMMAR.program(full.GRAMMAR.baseline() | dict(genome))


TABLE = Grammar(
    full.NAME,
    tuple(
        Gene(gene.name, gene.slot, {choice: gene.says[choice] for choice in CHOICES[gene.name]})
        for gene in full.GENES
        if gene.name in CHOICES
    ),
    render,
)
