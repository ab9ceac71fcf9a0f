"""The tables of the searches of a pack: programs that were tried, what made them, and the best ones together."""

import textwrap
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import NONE, Column, Table, number, percent, words
from evolora_core.searches.attention.pack.tables import interval
from evolora_core.searches.attention.scaling.intervals import of_crossed

_CANDIDATES = """
    WITH runs AS (
        SELECT condition AS arm, seed, count(*) AS proposed, count(*) FILTER (fresh) AS measured,
            count(*) FILTER (fresh AND score IS NULL) AS failed, max(score) FILTER (fresh) AS best,
            first(reason ORDER BY candidate) FILTER (fresh AND score IS NULL) AS first_reason
        FROM candidate JOIN complete_seeds USING (suite, seed) WHERE suite = $suite GROUP BY ALL
    ), chosen AS (
        SELECT c.condition AS arm, c.seed, c.score AS chosen, p.final_score AS final
        FROM candidate AS c JOIN attention_program AS p ON p.run_id = c.run_id AND p.candidate = c.candidate
        WHERE c.suite = $suite AND p.chosen
    ), fresh AS (
        SELECT arm, seed, -largest AS anew FROM scaling_fit WHERE suite = $suite
    )
    SELECT arm, count(*) AS seeds, avg(proposed) AS proposed, avg(measured) AS measured, avg(failed) AS failed,
        avg(best) AS best, avg(chosen) AS chosen, avg(final) AS final,
        avg(anew) AS anew,
        coalesce(first(first_reason ORDER BY seed) FILTER (first_reason IS NOT NULL), '') AS first_reason
    FROM runs LEFT JOIN chosen USING (arm, seed) LEFT JOIN fresh USING (arm, seed) GROUP BY arm ORDER BY arm
"""
# What a program is held against: its better parent. The baseline, whose score is 0, stands in no lineage: it is the
# parent of who has none there, and the other one of a cross that has one.
_OPERATORS = """
    WITH parents AS (
        SELECT l.run_id, child, max(score) AS score, count(*) AS known, bool_or(role = 'mate') AS mated
        FROM candidate_lineage AS l JOIN candidate AS p ON p.run_id = l.run_id AND p.candidate = l.parent GROUP BY ALL
    ), made AS (
        SELECT c.condition AS arm, c.fresh, c.score,
            CASE WHEN p.known = 1 AND (p.mated OR c.operator LIKE 'cross%') THEN greatest(p.score, 0)
                ELSE coalesce(p.score, 0) END AS given,
            CASE WHEN c.operator LIKE 'draw%' THEN 'draw' WHEN c.operator LIKE 'cross%' THEN 'cross'
                WHEN c.operator LIKE '%=%' THEN 'change' ELSE c.operator END AS operator
        FROM candidate AS c JOIN complete_seeds USING (suite, seed)
        LEFT JOIN parents AS p ON p.run_id = c.run_id AND p.child = c.candidate
        WHERE c.suite = $suite
    )
    SELECT arm, operator, count(*) AS proposed, count(*) FILTER (fresh) AS fresh,
        count(*) FILTER (fresh AND score IS NOT NULL) AS scored,
        count(*) FILTER (fresh AND score > given) AS better,
        avg(score - given) FILTER (fresh) AS step, max(score) AS best
    FROM made GROUP BY ALL ORDER BY arm, operator
"""
# A child that was known already is changed further, so an operator may name several changes.
_CHANGES = """
    SELECT condition AS arm, unnest(string_split(operator, ', ')) AS change
    FROM candidate JOIN complete_seeds USING (suite, seed)
    WHERE suite = $suite AND operator LIKE '%=%' AND operator NOT LIKE 'cross%' AND operator NOT LIKE 'draw%'
"""
_ENSEMBLES = """
    SELECT arm, seed, size, members, models, loss, alone FROM attention_ensemble
    JOIN complete_seeds USING (suite, seed) WHERE suite = $suite ORDER BY arm, seed, size, members
"""


def candidate_rows(stored: StoredSuite) -> pd.DataFrame:
    """How many programs each search tried, and what the chosen one gained then and gains with fresh seeds."""
    return stored.frame(_CANDIDATES)


def candidate_table(suite: str, data: pd.DataFrame) -> Table:
    """One row per search."""
    columns = [
        words("arm"),
        Column("seeds", number("seeds", "{:.0f}")),
        Column("proposed", number("proposed", "{:.1f}")),
        Column("new", number("measured", "{:.1f}")),
        Column("without score", number("failed", "{:.1f}")),
        Column("best score", number("best", "{:+.3f}")),
        Column("score of the chosen one", number("chosen", "{:+.3f}")),
        Column("over all its seeds", number("final", "{:+.3f}")),
        Column("with fresh seeds", number("anew", "{:+.3f}")),
        Column("for example", lambda r: textwrap.shorten(r["first_reason"], 60, placeholder=" …") or NONE, left=True),
    ]
    return Table("candidates", f"{suite}: programs that were tried, means over run seeds", data, columns)


def operator_rows(stored: StoredSuite) -> pd.DataFrame:
    """What each operator made, over all run seeds: proposed, fresh (not known before), scored, better than what it
    was made from, the mean difference to that (nats) and the best score. Of changes also the genes that they are of,
    and how many kinds (GENE=CHOICE) there are among as many changes as the arm with fewest has.
    """
    rows, changes = stored.frame(_OPERATORS), stored.frame(_CHANGES)
    fewest = int(changes.groupby("arm").size().min()) if len(changes) else 0
    kinds = {
        (str(arm), "change"): {
            "genes": float(own["change"].str.split("=").str[0].nunique()),
            "kinds": rarefied(own["change"].value_counts().to_numpy(), fewest),
            "among": float(fewest),
        }
        for arm, own in changes.groupby("arm")
    }
    for name in ("genes", "kinds", "among"):
        rows[name] = [
            kinds.get((arm, made), {}).get(name) for arm, made in zip(rows["arm"], rows["operator"], strict=True)
        ]
    return rows


def rarefied(counts: np.ndarray, among: int) -> float:
    """The kinds to expect among `among` individuals drawn without replacement from kinds with these counts (Hurlbert
    1971, Ecology 52:577).
    """
    total = int(counts.sum())  # logarithms of binomials; -0.5 keeps those that are not used from being a pole
    missed = special.gammaln(total - counts + 1) - special.gammaln(np.maximum(total - counts - among, -0.5) + 1)
    missed -= special.gammaln(total + 1) - special.gammaln(total - among + 1)
    return float(np.where(total - counts < among, 1.0, 1 - np.exp(missed)).sum())


def operator_table(suite: str, data: pd.DataFrame) -> Table:
    """One row per search and operator."""

    def of(part: str, whole: str) -> Any:
        return lambda r: percent(r[part] / r[whole] if r[whole] else None)

    columns = [
        words("arm"),
        words("operator"),
        Column("proposed", number("proposed", "{:.0f}")),
        Column("new %", of("fresh", "proposed")),
        Column("of these with a score %", of("scored", "fresh")),
        Column("better than the parent %", of("better", "fresh")),
        Column("mean step, nats", number("step", "{:+.3f}")),
        Column("best score", number("best", "{:+.3f}")),
        Column("genes", number("genes", "{:.0f}")),
        Column("kinds of change", lambda r: NONE if r["kinds"] is None else f"{r['kinds']:.1f} among {r['among']:.0f}"),
    ]
    return Table("operators", f"{suite}: what each operator made, over all run seeds", data, columns)


def ensemble_rows(stored: StoredSuite) -> pd.DataFrame:
    """One row per search and size: models, mean loss of the chosen program's models alone, of the best programs
    together and of the chosen program's models together (nats), and by how much the programs are ahead, with its
    interval.
    """
    rows = stored.frame(_ENSEMBLES)
    found = []
    for (arm, size), own in rows.groupby(["arm", "size"], sort=False):
        sides = {name: part.set_index("seed") for name, part in own.groupby("members")}
        ahead = of_crossed((sides["seeds"]["loss"] - sides["programs"]["loss"]).to_numpy(dtype=np.float64))
        found.append(
            {
                "arm": arm, "size": size, "run_seeds": len(sides["programs"]), "models": own["models"].mean(),
                "alone": sides["seeds"]["alone"].mean(), "programs": sides["programs"]["loss"].mean(),
                "seeds": sides["seeds"]["loss"].mean(), "ahead": ahead.value, "lo": ahead.lo, "hi": ahead.hi,
            }
        )  # fmt: skip
    names = ["arm", "size", "run_seeds", "models", "alone", "programs", "seeds", "ahead", "lo", "hi"]
    return pd.DataFrame(found, columns=names)


def ensemble_table(suite: str, data: pd.DataFrame) -> Table:
    """Whether several programs together are more than one program several times."""
    columns = [
        words("arm"),
        words("size"),
        Column("run seeds", number("run_seeds", "{:.0f}")),
        Column("models", number("models", "{:.1f}")),
        Column("the chosen one alone", number("alone", "{:.3f}")),
        Column("the best programs together", number("programs", "{:.3f}")),
        Column("the chosen one as often", number("seeds", "{:.3f}")),
        Column("programs ahead by", interval("ahead", "lo", "hi")),
    ]
    caption = f"{suite}: losses of models whose probabilities are averaged, nats, 95 % intervals"
    return Table("ensembles", caption, data, columns)
