"""The flow `paper-suite`: from a suite file to a paper pack. Which stages it has, the search of the suite says: an
adapter search, for example, in `evolora_core/searches/adapters/plan.py`.
"""

from flows._suite import suite_flow

paper_suite = suite_flow("paper-suite", __name__)
