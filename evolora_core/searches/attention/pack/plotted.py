"""Rows for the plots of an attention suite's pack."""

import pandas as pd

from evolora_core.report.stored import StoredSuite

_LOSSES = """
    SELECT condition AS arm, size, any_value(parameters) AS parameters, count(*) AS runs, avg(loss) AS loss,
        min(loss) AS lowest, max(loss) AS highest
    FROM attention_losses AS l JOIN complete_seeds AS done ON done.suite = l.suite AND done.seed = l.run_seed
    WHERE l.suite = $suite AND stage = 'evaluate' GROUP BY ALL ORDER BY arm, parameters
"""
_GAINS = """
    WITH fresh AS (
        SELECT condition AS arm, run_seed, l.seed, size, any_value(parameters) AS parameters, avg(loss) AS loss
        FROM attention_losses AS l JOIN complete_seeds AS done ON done.suite = l.suite AND done.seed = l.run_seed
        WHERE l.suite = $suite AND stage = 'evaluate' GROUP BY ALL
    )
    SELECT own.arm, own.size, plain.parameters, count(*) AS runs, avg(plain.loss - own.loss) AS gain,
        min(plain.loss - own.loss) AS lowest, max(plain.loss - own.loss) AS highest
    FROM fresh AS own JOIN fresh AS plain USING (run_seed, seed, size)
    WHERE plain.arm = 'mha' AND own.arm <> 'mha' GROUP BY ALL ORDER BY own.arm, plain.parameters
"""
_PROGRESS = """
    WITH own AS (
        SELECT condition AS arm, seed, candidate, score,
            sum(flops) OVER (PARTITION BY run_id ORDER BY candidate) AS flops,
            max(score) OVER (PARTITION BY run_id ORDER BY candidate) AS best
        FROM candidate JOIN complete_seeds USING (suite, seed) WHERE suite = $suite
    )
    SELECT arm, seed, candidate + 1 AS programs, flops, score, best FROM own ORDER BY arm, seed, candidate
"""


def losses(stored: StoredSuite) -> pd.DataFrame:
    """Mean loss of each arm at each size over fresh seeds, with the lowest and highest run."""
    return stored.frame(_LOSSES)


def gains(stored: StoredSuite) -> pd.DataFrame:
    """Gain over the baseline of each arm at each size, paired by run seed and training seed."""
    return stored.frame(_GAINS)


def progress(stored: StoredSuite) -> pd.DataFrame:
    """Score of every program in the order in which it was tried, and the best so far."""
    return stored.frame(_PROGRESS)
