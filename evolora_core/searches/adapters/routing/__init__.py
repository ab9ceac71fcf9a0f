"""Which organelle answers: one rule for the ecology and for its rivals, chosen on the selection split.

`single` sends every item to one slot; `family` chooses a slot for each family and leaves unseen families to the host;
`cell` for each family and depth; `learned` is `family` by a guess from the prompt, which may be that no family fits.
The bare host is always a candidate, and wins unless an adapter is better. The cost of choosing is that of the outcomes
handed in: the caller charges it.
"""
