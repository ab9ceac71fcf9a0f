"""Genomes that are drawn, changed, crossed and taken apart."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolora_core.engine.rng import stream
from evolora_core.searches.attention.frameworks.registry import FRAMEWORKS
from evolora_core.searches.attention.grammar import vary
from evolora_core.searches.attention.grammar.genes import SLOTS, Genome, Grammar
from evolora_core.searches.attention.grammar.registry import get_grammar
from evolora_core.searches.attention.grammar.table import TABLE

GRAMMARS = [*(get_grammar(name) for name in FRAMEWORKS), TABLE]
grammars, seeds = st.sampled_from(GRAMMARS), st.integers(0, 2**20)


def unlike(first: Genome, second: Genome) -> set[str]:
    return {name for name in first if first[name] != second[name]}


def pair(grammar: Grammar, seed: int) -> tuple[dict[str, str], dict[str, str]]:
    return vary.draw(grammar, stream(seed, 0, 0, "first")), vary.draw(grammar, stream(seed, 0, 0, "second"))


@pytest.mark.parametrize("grammar", GRAMMARS)
def test_every_choice_is_drawn_about_as_often(grammar: Grammar) -> None:
    drawn = [vary.draw(grammar, stream(0, 0, slot, "draw")) for slot in range(400)]
    for gene in grammar.genes:
        counts = [sum(genome[gene.name] == choice for genome in drawn) for choice in gene.choices]
        expected = 400 / len(counts)
        assert all(abs(count - expected) < 5 * expected**0.5 for count in counts), (gene.name, counts)


@given(grammar=grammars, seed=seeds)
def test_a_change_is_of_one_gene_and_says_which(grammar: Grammar, seed: int) -> None:
    genome, _ = pair(grammar, seed)
    changed, name = vary.mutate(grammar, genome, stream(seed, 0, 0, "mutate"))
    gene, choice = name.split("=")
    assert unlike(genome, changed) == {gene} and changed[gene] == choice
    assert grammar.check(changed) == changed
    assert (changed, name) == vary.mutate(grammar, genome, stream(seed, 0, 0, "mutate"))


@given(grammar=grammars, seed=seeds)
def test_a_child_has_each_slot_of_one_parent(grammar: Grammar, seed: int) -> None:
    first, second = pair(grammar, seed)
    child = vary.cross(grammar, first, second, stream(seed, 0, 0, "cross"))
    assert list(child) == list(grammar.baseline())
    slots = {gene.name: gene.slot for gene in grammar.genes}
    differ = {slots[name] for name in unlike(first, second)}
    if len(differ) > 1:
        assert child not in (first, second)
        for slot in SLOTS:
            own = [{name: genome[name] for name in slots if slots[name] == slot} for genome in (child, first, second)]
            assert own[0] in own[1:]


@given(seed=seeds)
def test_parents_alike_in_all_but_one_slot_are_crossed_within_it(seed: int) -> None:
    grammar = get_grammar("coefficient-dynamics")
    first, _ = pair(grammar, seed)
    second = first | {"kernel": "relu2" if first["kernel"] != "relu2" else "exp"}
    assert vary.cross(grammar, first, second, stream(seed, 0, 0, "cross")) == first
    second["heads"] = "talking" if first["heads"] != "talking" else "own"
    child = vary.cross(grammar, first, second, stream(seed, 0, 0, "cross"))
    assert len(unlike(child, first)) == len(unlike(child, second)) == 1


@settings(max_examples=20)
@given(grammar=grammars, seed=seeds)
def test_ablations_take_one_choice_back_each(grammar: Grammar, seed: int) -> None:
    genome, _ = pair(grammar, seed)
    found = vary.ablations(grammar, genome)
    assert {gene for gene, _ in found} == unlike(genome, grammar.baseline())
    for gene, without in found:
        assert unlike(genome, without) == {gene} and without[gene] == grammar.baseline()[gene]
    assert vary.ablations(grammar, grammar.baseline()) == []


def test_genomes_are_described_in_words() -> None:
    grammar = get_grammar("matrix-mixer")
    assert vary.describe(grammar, grammar.baseline()) == "the baseline: causal softmax attention"
    words = vary.describe(grammar, grammar.baseline() | {"position": "rope", "keys": "shared"})
    assert words == "rotary positions in place of the host's; all heads share one set of keys"
