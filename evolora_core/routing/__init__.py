"""Which organelle answers: one rule for the ecology and for its rivals, chosen on the selection split.

`single` sends every item to one slot; `family` chooses a slot for each family and leaves unseen families to the host;
`cell` for each family and depth; `learned` is `family` by a guess from the prompt, which may be that no family fits.
The bare host is always a candidate, and wins unless an adapter is better. The cost of choosing is that of the outcomes
handed in: the caller charges it.
"""

from evolora_core.routing.candidates import answer_as_each, choose_among, learn_router, no_ops
from evolora_core.routing.learned import FILE, Classifier, guess_families, read_classifier
from evolora_core.routing.routes import ROUTINGS, Routes, choose_routes, read_routes, route, write_routes

__all__ = [
    "FILE",
    "ROUTINGS",
    "Classifier",
    "Routes",
    "answer_as_each",
    "choose_among",
    "choose_routes",
    "guess_families",
    "learn_router",
    "no_ops",
    "read_classifier",
    "read_routes",
    "route",
    "write_routes",
]
