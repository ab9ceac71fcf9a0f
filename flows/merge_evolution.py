"""The flow `merge-evolution`: recipes that merge fine-tuned models, evolved and compared with every plain way."""

from flows._suite import suite_flow

merge_evolution = suite_flow("merge-evolution", __name__)
