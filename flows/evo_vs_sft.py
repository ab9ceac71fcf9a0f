"""The flow `evo-vs-sft`: the ecology against its strongest rivals, eight seeds."""

from flows._suite import suite_flow

evo_vs_sft = suite_flow("evo-vs-sft", __name__)
