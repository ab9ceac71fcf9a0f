"""The conditions that an attention suite may name: known mechanisms, programs of your own, strategies, a rival."""

STRATEGIES: dict[str, str] = {
    "evolution": "children of the best by change and crossing",
    "evolution-no-crossover": "children of the best by change alone",
    "evolution-archive": "children of the best of each kind of mechanism",
    "evolution-islands": "children of the best of two islands, which meet every third generation",
    "greedy": "changes of the best so far",
    "random": "programs drawn from the grammar, none twice",
}
OPENEVOLVE = "openevolve"
SEARCHES = STRATEGIES | {
    OPENEVOLVE: "the rival OpenEvolve 0.4 in a process of its own, with the same grammar and the same evaluator"
}
