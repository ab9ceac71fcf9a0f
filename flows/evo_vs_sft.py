"""The flow `evo-vs-sft`: the ecology against its strongest rivals, eight seeds."""

from flows._suite import Chain, suite_flow
from flows.paper_suite import chain, closing

evo_vs_sft = suite_flow("evo-vs-sft", __name__, Chain(chain, closing))
