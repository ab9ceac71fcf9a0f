"""The flow `ood-suite`: what every arm does with families that no adapter trained on, under every router."""

from flows._suite import suite_flow

ood_suite = suite_flow("ood-suite", __name__)
