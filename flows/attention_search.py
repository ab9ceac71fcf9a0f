"""The flow `attention-search`: attention mechanisms as programs, evolved and judged on sizes that they never saw."""

from flows._suite import suite_flow

attention_search = suite_flow("attention-search", __name__)
