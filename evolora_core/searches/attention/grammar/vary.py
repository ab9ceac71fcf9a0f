"""Draws, changes and crosses genomes of any grammar, and takes them apart."""

import numpy as np

from evolora_core.searches.attention.grammar.genes import SLOTS, Genome, Grammar


def draw(grammar: Grammar, rng: np.random.Generator) -> dict[str, str]:
    """A genome with every choice of every gene equally likely."""
    return {gene.name: gene.choices[int(rng.integers(len(gene.choices)))] for gene in grammar.genes}


def mutate(grammar: Grammar, genome: Genome, rng: np.random.Generator) -> tuple[dict[str, str], str]:
    """Another choice of one gene, each gene and then each choice equally likely; and the change as `gene=choice`."""
    gene = grammar.genes[int(rng.integers(len(grammar.genes)))]
    others = [choice for choice in gene.choices if choice != genome[gene.name]]
    choice = others[int(rng.integers(len(others)))]
    return dict(genome) | {gene.name: choice}, f"{gene.name}={choice}"


def cross(grammar: Grammar, first: Genome, second: Genome, rng: np.random.Generator) -> dict[str, str]:
    """Some slots of one genome, the rest of the other.

    Only what differs is dealt out: whole slots, or single genes where the two differ in one slot alone. Both give
    something, so that the child is neither of them, unless they differ in one gene at most: then it is the first.
    """
    slots = {gene.name: gene.slot for gene in grammar.genes}
    unlike = [name for name in slots if first[name] != second[name]]
    units = [[name for name in unlike if slots[name] == slot] for slot in SLOTS]
    units = [unit for unit in units if unit]
    if len(units) == 1:
        units = [[name] for name in unlike]
    if len(units) < 2:
        return dict(first)
    taken = int(rng.integers(1, 2 ** len(units) - 1))  # one bit for each unit; not none, not all
    given = {name for place, unit in enumerate(units) if taken >> place & 1 for name in unit}
    return {name: (second if name in given else first)[name] for name in slots}


def ablations(grammar: Grammar, genome: Genome) -> list[tuple[str, dict[str, str]]]:
    """Each gene that differs from the baseline, with the genome in which it alone has the baseline's choice."""
    baseline = grammar.baseline()
    return [(name, dict(genome) | {name: baseline[name]}) for name in baseline if genome[name] != baseline[name]]


def describe(grammar: Grammar, genome: Genome) -> str:
    """What a genome changes of its baseline, in words."""
    changed = [gene.says[genome[gene.name]] for gene in grammar.genes if genome[gene.name] != gene.choices[0]]
    return "; ".join(changed) or "the baseline: causal softmax attention"
