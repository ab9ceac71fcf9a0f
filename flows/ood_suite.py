"""The flow `ood-suite`: what every arm does with families that no adapter trained on, under every router."""

from flows._suite import Chain, suite_flow
from flows.paper_suite import chain, closing

ood_suite = suite_flow("ood-suite", __name__, Chain(chain, closing))
