"""Where an ecology's gain comes from: whose answers it is, and what practice found."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import Column, Table, number, percent, words

# `points` of an origin is what its answers add to the host's accuracy; the host's own add nothing.
_ORIGINS = """
    WITH gained AS (
        SELECT condition, seed, origin, points FROM gain_by_origin JOIN complete_seeds USING (suite, seed)
        WHERE suite = $suite AND split = 'holdout_id' AND arm = condition
    ), ended AS (
        SELECT run_id, max(generation) AS last FROM generations WHERE suite = $suite GROUP BY run_id
    ), lived AS ( -- without the sum of learners, which is made after the last generation
        SELECT condition, seed,
            count(*) FILTER (WHERE died IS NULL AND (origin <> 'merge' OR born <= coalesce(last, born))) AS alive,
            count(*) FILTER (WHERE died IS NULL AND lessons > 0) AS learned
        FROM organelles JOIN complete_seeds USING (suite, seed) LEFT JOIN ended USING (run_id)
        WHERE suite = $suite AND condition <> 'tuning' GROUP BY ALL
    ), runs AS (
        SELECT condition, seed, alive, learned, coalesce(sum(points), 0) AS gain,
            coalesce(sum(points) FILTER (WHERE origin = 'founder'), 0) AS founders,
            coalesce(sum(points) FILTER (WHERE origin = 'mutation'), 0) AS mutants,
            coalesce(sum(points) FILTER (WHERE origin = 'copy'), 0) AS copies,
            coalesce(sum(points) FILTER (WHERE origin = 'merge'), 0) AS merges
        FROM lived LEFT JOIN gained USING (condition, seed) GROUP BY ALL
    )
    SELECT condition, count(*) AS seeds, avg(alive) AS alive, avg(learned) AS learned, avg(gain) AS gain,
        avg(founders) AS founders, avg(mutants) AS mutants, avg(copies) AS copies, avg(merges) AS merges
    FROM runs JOIN suites ON suites.suite = $suite
    WHERE list_contains(conditions, 'frozen') GROUP BY condition, conditions
    ORDER BY list_position(conditions, condition)
"""

_FOUND = """
    WITH practised AS (
        SELECT condition, seed, family, generation, items, right_first, right_in_the_end AS found, answers
        FROM discovery JOIN complete_seeds USING (suite, seed) WHERE suite = $suite AND condition <> 'tuning'
    ), runs AS (
        SELECT condition, seed, family,
            arg_min(items, generation) AS first_items, arg_min(right_first, generation) AS first_right,
            arg_min(found, generation) AS first_found, arg_max(items, generation) AS last_items,
            arg_max(right_first, generation) AS last_right, arg_max(found, generation) AS last_found,
            sum(items * answers) AS asked
        FROM practised GROUP BY ALL
    )
    SELECT condition, family, count(*) AS seeds, avg(first_items) AS first_items, avg(first_right) AS first_right,
        avg(first_found) AS first_found, avg(last_items) AS last_items, avg(last_right) AS last_right,
        avg(last_found) AS last_found, avg(asked) AS asked
    FROM runs JOIN suites ON suites.suite = $suite
    GROUP BY condition, family, conditions ORDER BY list_position(conditions, condition), family
"""


def origin_frame(stored: StoredSuite) -> pd.DataFrame:
    """One row per condition with organelles; empty where the suite has none, or no `frozen` to gain over.

    Columns: condition, seeds; alive and learned, the organelles of the end and those of them that took a learning step
    (a copy of a learner did not); gain, the points over the host's accuracy in distribution under the headline router,
    and what answers by founders, mutants and merges (sums of learners too) add to it; by copies of a contest's winner
    too, where there are any. Means over the complete seeds.
    """
    found = stored.frame(_ORIGINS)
    return found if found["copies"].any() else found.drop(columns="copies")


def origin_table(suite: str, origins: pd.DataFrame) -> Table:
    """The origins as a table."""
    columns = [
        words("condition"),
        Column("alive at the end", number("alive", "{:.1f}")),
        Column("of them took a learning step", number("learned", "{:.1f}")),
        Column("gain, points", number("gain", "{:+.1f}")),
        Column("by founders", number("founders", "{:+.1f}")),
        Column("by mutants", number("mutants", "{:+.1f}")),
        *([Column("by copies of a winner", number("copies", "{:+.1f}"))] if "copies" in origins else []),
        Column("by merges and sums", number("merges", "{:+.1f}")),
    ]
    return Table("origins", f"{suite}: whose answers the gain in distribution is, means over seeds", origins, columns)


def found_frame(stored: StoredSuite) -> pd.DataFrame:
    """One row per condition that practises and family: of the items of the first and of the last generation with that
    family, how many there were, and the shares that were right at the first answer and in the end; `asked` is the
    answers in practice of the whole run, each of which is a call of the verifier. Means over the complete seeds. Empty
    where no condition practises.
    """
    return stored.frame(_FOUND)


def found_table(suite: str, found: pd.DataFrame) -> Table:
    """What practice found, as a table."""
    columns = [
        words("condition"),
        words("family"),
        Column("items, first", number("first_items", "{:.0f}")),
        Column("right at once %", _share("first_right")),
        Column("found %", _share("first_found")),
        Column("items, last", number("last_items", "{:.0f}")),
        Column("right at once %", _share("last_right")),
        Column("found %", _share("last_found")),
        Column("verifier calls in practice, all", number("asked", "{:.0f}")),
    ]
    return Table("found", f"{suite}: what practice found in its first and last generation", found, columns)


def _share(key: str) -> Callable[[dict[str, Any]], str]:
    return lambda r: percent(r[key])
