"""What the plots of a page show, read from the store: rows as flat objects.

Rows of single runs are of the seeds that were asked for, and of the one condition if one was; `run` is how a page calls
a run, such as `ecology, seed 0`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import rows_of
from evolora_core.searches.adapters.pack.curves import headline

Rows = list[dict[str, Any]]
POINTS = 120  # of a line; longer ones are means of neighbours
SNAPSHOTS = 12  # of the archive of a run

_RUN = "condition || ', seed ' || seed AS run"
_CHOSEN = "suite = $suite AND list_contains($seeds, seed) AND condition = coalesce($condition, condition)"

# The bare host has no router and stands beside the arms under each.
_ACCURACY = """
    WITH arms AS (
        SELECT *, coalesce(nullif(split_part(arm, ':', 2), ''), $headline) AS router FROM {rows}
    ),
    routed AS (
        SELECT * FROM arms WHERE condition <> 'frozen'
        UNION ALL
        SELECT f.* REPLACE (r.router AS router) FROM arms AS f
            CROSS JOIN (SELECT DISTINCT router FROM arms WHERE condition <> 'frozen' OR router = $headline) AS r
        WHERE f.condition = 'frozen'
    )
    SELECT {columns} FROM routed JOIN suites ON suite = $suite
    ORDER BY router <> $headline, router, split, family <> '*', family, list_position(conditions, condition)
"""
_MEANS = "(SELECT condition, arm, split, family, accuracy.seeds AS n, acc, lo, hi FROM accuracy WHERE suite = $suite)"
_SEEDS = """(
    SELECT condition, arm, split, family, seed, avg(correct::INT) AS acc FROM (
        FROM evaluations UNION ALL SELECT * REPLACE ('*' AS family) FROM evaluations
    ) JOIN complete_seeds USING (suite, seed) WHERE suite = $suite GROUP BY ALL
)"""

_GENERATIONS = f"""
    SELECT condition, seed, generation, population, energy_total, mean_net, accuracy
    FROM generation_summary WHERE {_CHOSEN} ORDER BY condition, seed, generation
"""

_NICHES = f"""
    WITH alive AS (
        SELECT g.condition, g.seed, generation, niche, count(*) AS organelles
        FROM generation_summary AS g JOIN organelles AS o USING (suite, condition, seed)
        WHERE {_CHOSEN} AND population > 0 AND born <= generation AND (died IS NULL OR died > generation)
        GROUP BY ALL
    )
    SELECT {_RUN}, generation, niche, organelles FROM alive
    WHERE condition IN (
        SELECT condition FROM organelles WHERE {_CHOSEN} GROUP BY condition HAVING count(*) > count(DISTINCT seed)
    )
    ORDER BY condition, seed, generation, niche
"""

_LIVES = f"""
    SELECT {_RUN}, condition, seed, organelle, origin, niche, rank, born, died, cause, balance / 1e6 AS balance
    FROM organelles AS o WHERE {_CHOSEN} AND condition IN (SELECT condition FROM lineage WHERE suite = $suite)
    ORDER BY condition, seed, born, organelle
"""
_PARENTS = f"""
    SELECT {_RUN}, child, parent, generation, role FROM lineage
    WHERE {_CHOSEN} AND role <> 'sponsor' -- who paid gave no weights
    ORDER BY condition, seed, child, parent
"""

# Of a long run as many generations as fit, evenly spaced, the last among them.
_ARCHIVE = f"""
    WITH ends AS (SELECT run_id, max(generation) AS last FROM archive WHERE {_CHOSEN} GROUP BY ALL)
    SELECT {_RUN}, generation, family, depth, cost_bin, organelle, objective
    FROM archive JOIN ends USING (run_id)
    WHERE (last - generation) % ceil((last + 1) / $snapshots)::BIGINT = 0
    ORDER BY condition, seed, generation, family, depth, cost_bin
"""

_FOUND = f"""
    SELECT condition, seed, family, generation, right_first FROM discovery WHERE {_CHOSEN}
    ORDER BY condition, seed, family, generation
"""
_STEPS = f"""
    WITH steps AS (
        SELECT *, {{adapter}} AS trained,
            ceil(max(step) OVER (PARTITION BY run_id, {{adapter}}) / $points)::BIGINT AS wide
        FROM {{table}} WHERE {_CHOSEN}
    )
    SELECT condition, seed, trained AS adapter, max(step) AS step, avg({{value}}) AS value FROM steps
    GROUP BY condition, seed, trained, (step - 1) // wide ORDER BY condition, seed, trained, step
"""


@dataclass(frozen=True)
class Chosen:
    """A stored suite, and the runs that are shown one by one: those of some seeds, of one condition or of all."""

    stored: StoredSuite
    seeds: Sequence[int]
    condition: str | None = None

    def rows(self, sql: str, **parameters: Any) -> Rows:
        """The rows of a query; `$seeds` and `$condition` are the chosen ones where it names them."""
        chosen = {"seeds": list(self.seeds), "condition": self.condition} if "$seeds" in sql else {}
        return rows_of(self.stored.frame(sql, **chosen, **parameters))

    def accuracies(self) -> Rows:
        """Means over the complete seeds: router, split, family (`*` is the whole split), condition, n, acc, lo, hi."""
        sql = _ACCURACY.format(rows=_MEANS, columns="router, split, family, condition, n, acc, lo, hi")
        return self.rows(sql, headline=headline(self.stored.config))

    def accuracies_by_seed(self) -> Rows:
        """The same of each complete seed: router, split, family, condition, seed, acc."""
        sql = _ACCURACY.format(rows=_SEEDS, columns="router, split, family, condition, seed, acc")
        return sorted(self.rows(sql, headline=headline(self.stored.config)), key=lambda row: int(row["seed"]))

    def generations(self) -> Rows:
        """A row for each run and generation."""
        return self.rows(_GENERATIONS)

    def niches(self) -> Rows:
        """How many organelles of each niche live after a generation, where a run has several organelles."""
        return self.rows(_NICHES)

    def lives(self) -> Rows:
        """Organelles of the conditions that have children, the eldest first."""
        return self.rows(_LIVES)

    def parents(self) -> Rows:
        """A row for each child and parent."""
        return self.rows(_PARENTS)

    def archive(self) -> Rows:
        """Who held which cell, in at most `SNAPSHOTS` generations of each run."""
        return self.rows(_ARCHIVE, snapshots=SNAPSHOTS)

    def found(self) -> Rows:
        """The share of practised items that were right at the first answer, by family and generation."""
        return self.rows(_FOUND)

    def steps(self, table: str, value: str) -> Rows:
        """The learning steps of a rival: condition, seed, adapter, step, value; long runs as means of neighbours."""
        adapter = "adapter" if table == "sft_steps" else "'all'"  # the others train one
        return self.rows(_STEPS.format(table=table, value=value, adapter=adapter), points=POINTS)
