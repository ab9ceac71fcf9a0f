"""The flow `paper-suite`: from a suite file to a paper pack."""

from flows._suite import suite_flow

paper_suite = suite_flow("paper-suite", __name__)
