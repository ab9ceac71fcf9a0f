"""The conditions that an attention suite may name: known mechanisms, programs of your own, strategies."""

STRATEGIES: dict[str, str] = {
    "evolution": "children of the best by change and crossing",
    "evolution-no-crossover": "children of the best by change alone",
    "greedy": "changes of the best so far",
    "random": "programs drawn from the grammar, none twice",
}
EVOLVED = ("evolution", "evolution-no-crossover", "greedy")  # those that learn from what was tried
