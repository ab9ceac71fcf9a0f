"""The tables of a merge search: arms, domains, parents, what was chosen, and what the searches measured."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from evolora_core.report.accuracies import interval
from evolora_core.report.compute import compute_rows
from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import NONE, Column, Table, number, percent, rows_of, words
from evolora_core.searches.merging.pack.looks import in_order
from evolora_core.searches.merging.pack.recipes import readable
from evolora_core.statistics.comparisons import ALL, compute_accuracies
from evolora_core.statistics.inference import RESAMPLES

_ANSWERS = """
    SELECT condition, seed, arm, split, task_id, domain AS family, correct, item_key(prompt, task_id) AS prompt
    FROM data.evaluations JOIN complete_seeds USING (suite, seed)
    WHERE suite = $suite AND arm = condition AND domain IS NOT NULL AND split = 'test'
"""
_PARENTS = """
    SELECT parent, any_value(domain) AS domain, count(DISTINCT seed) AS seeds, avg(steps) AS steps, avg(loss) AS loss,
        avg(drift) AS drift, max(drift) AS largest_drift
    FROM merge_parent JOIN complete_seeds USING (suite, seed) WHERE suite = $suite
    GROUP BY parent ORDER BY list_position($parents, parent), parent
"""
_RECIPES = """
    SELECT condition AS arm, seed, merge_choice.kind AS made_as, space, coalesce(genome, '') AS genome,
        coalesce(genome_id, '') AS genome_id, candidate, coalesce(note, '') AS note, search_score, selection_score
    FROM merge_choice JOIN complete_seeds USING (suite, seed) WHERE suite = $suite ORDER BY seed
"""
_CANDIDATES = """
    WITH runs AS (
        SELECT condition AS arm, seed, max(generation) + 1 AS generations, count(*) AS proposed,
            count(*) FILTER (fresh) AS measured, count(*) FILTER (NOT fresh) AS twins,
            count(*) FILTER (fresh AND score IS NULL) AS failed,
            first(reason ORDER BY candidate) FILTER (fresh AND score IS NULL) AS first_reason
        FROM candidate JOIN complete_seeds USING (suite, seed) WHERE suite = $suite GROUP BY ALL
    )
    SELECT arm, count(*) AS seeds, avg(generations) AS generations, avg(proposed) AS proposed,
        avg(measured) AS measured, avg(twins) AS twins, avg(failed) AS failed,
        coalesce(first(first_reason ORDER BY seed) FILTER (first_reason IS NOT NULL), '') AS first_reason
    FROM runs GROUP BY arm ORDER BY arm
"""


def merge_rows(stored: StoredSuite) -> pd.DataFrame:
    """One row per arm, means over the complete seeds: the view `merge_table`."""
    return in_order(stored.frame("FROM merge_table WHERE suite = $suite ORDER BY arm"), stored.config)


def merge_table(suite: str, data: pd.DataFrame) -> Table:
    """What each arm reached, and what it cost."""
    columns = [
        words("arm"),
        Column("space", lambda r: r["space"] or NONE, left=True),
        Column("seeds", number("seeds", "{:.0f}")),
        Column("test %", lambda r: percent(r["test_score"], r["test_lo"], r["test_hi"])),
        Column("search, nats", number("search_score", "{:.4f}")),
        Column("selection, nats", number("selection_score", "{:.4f}")),
        Column("evaluations", number("evaluations", "{:.1f}")),
        Column("FLOPs", number("flops", "{:.3g}")),
        Column("seconds", number("seconds", "{:.1f}")),
    ]
    return Table("merge_table", f"{suite}: every arm, means over seeds; of the test with 95 % intervals", data, columns)


def domain_rows(stored: StoredSuite) -> pd.DataFrame:
    """Exact match on the test by arm and domain: n items, score (mean over the complete seeds), lo, hi (95 % bootstrap
    over seeds, then items; with one seed Wilson's).
    """
    answers = stored.frame(_ANSWERS)
    items = answers.groupby(["arm", "family"])["prompt"].nunique()
    found = compute_accuracies(answers, stored.config.get("evaluation", {}).get("bootstrap", RESAMPLES))
    columns = ["arm", "domain", "n", "score", "lo", "hi"]
    rows = pd.DataFrame(
        [
            (own["arm"], own["family"], items[own["arm"], own["family"]], own["acc"], own["lo"], own["hi"])
            for own in found
            if own["family"] != ALL
        ],
        columns=columns,
    )
    places = {domain: place for place, domain in enumerate(stored.config.get("domains", {}))}
    rows = rows.sort_values("domain", key=lambda names: names.map(places), kind="stable")
    return in_order(rows, stored.config)


def domain_table(suite: str, data: pd.DataFrame) -> Table:
    """One column per domain."""
    by_cell = {(r["arm"], r["domain"]): {"acc": r["score"], "lo": r["lo"], "hi": r["hi"]} for r in rows_of(data)}

    def cell(domain: str) -> Callable[[dict[str, Any]], str]:
        return lambda r: interval(by_cell.get((r["arm"], domain)))

    columns = [
        words("arm"),
        *(Column(f"{domain} %", cell(domain)) for domain in dict.fromkeys(data["domain"])),
    ]
    caption = f"{suite}: exact match on the test by domain, means over seeds with 95 % intervals"
    return Table("merge_domains", caption, data, columns, key=("arm",))


def parent_rows(stored: StoredSuite) -> pd.DataFrame:
    """One row per parent, means over the complete seeds; own and base: exact match in the parent's own domain."""
    parents = list(stored.config.get("models") or stored.config.get("domains", {}))
    tested = domain_rows(stored).set_index(["arm", "domain"])
    rows = stored.frame(_PARENTS, parents=parents)
    for name, arms in (("own", "parent-" + rows["parent"]), ("base", ["base"] * len(rows))):
        own = tested.reindex(list(zip(arms, rows["domain"], strict=True)))
        rows[[name, f"{name}_lo", f"{name}_hi"]] = own[["score", "lo", "hi"]].to_numpy()
    return rows


def parent_table(suite: str, data: pd.DataFrame) -> Table:
    """How far the parents are from the base, and what they learned."""
    columns = [
        words("parent"),
        Column("domain", lambda r: r["domain"] or NONE, left=True),
        Column("seeds", number("seeds", "{:.0f}")),
        Column("steps", number("steps", "{:.0f}")),
        Column("last loss, nats", number("loss", "{:.3f}")),
        Column("drift |τ|/|θ₀|", number("drift", "{:.4f}")),
        Column("largest drift", number("largest_drift", "{:.4f}")),
        Column("own domain %", lambda r: percent(r["own"], r["own_lo"], r["own_hi"])),
        Column("base there %", lambda r: percent(r["base"], r["base_lo"], r["base_hi"])),
    ]
    return Table(
        "parents", f"{suite}: the models that are merged, means over seeds; shares with 95 % intervals", data, columns
    )


def recipe_rows(stored: StoredSuite) -> pd.DataFrame:
    """What each run chose: arm, seed, made_as (recipe, weights or ensemble), space, genome (canonical JSON), genome_id,
    candidate, note, search_score, selection_score.
    """
    return in_order(stored.frame(_RECIPES), stored.config)


def recipe_table(suite: str, data: pd.DataFrame) -> Table:
    """What each arm chose with the first seed."""
    columns = [
        words("arm"),
        Column("seed", number("seed", "{:.0f}")),
        Column("model", lambda r: readable(r["genome"]) if r["genome"] else r["made_as"], left=True),
        Column("genome", lambda r: r["genome_id"] or NONE, left=True),
        Column("candidate", number("candidate", "{:.0f}")),
        words("note"),
    ]
    caption = f"{suite}: what each arm chose with the first seed; `recipes.csv` has every seed"
    return Table("recipes", caption, data, columns, key=("arm",))


def cost_rows(stored: StoredSuite) -> pd.DataFrame:
    """Budget FLOPs by condition and purpose, in the order of the arms; what conditions share comes last."""
    rows = compute_rows(stored).rename(columns={"condition": "arm"})
    return in_order(rows, stored.config).rename(columns={"arm": "condition"}).drop(columns="kind")


def cost_table(suite: str, data: pd.DataFrame) -> Table:
    """One column per purpose, and the seconds of all together."""
    rows = rows_of(data)
    spent = {(r["condition"], r["purpose"]): r["flops"] for r in rows}
    seconds = data.groupby("condition")["seconds"].sum()

    def cell(purpose: str) -> Callable[[dict[str, Any]], str]:
        return lambda r: NONE if (flops := spent.get((r["condition"], purpose))) is None else f"{flops:.3g}"

    columns = [
        words("condition"),
        Column("runs", number("runs", "{:.0f}")),
        *(Column(purpose, cell(purpose)) for purpose in sorted(set(data["purpose"]))),
        Column("seconds", lambda r: f"{seconds[r['condition']]:.1f}"),
    ]
    caption = f"{suite}: where the compute went, budget FLOPs and seconds of a run, means over runs"
    return Table("compute", caption, data, columns, key=("condition",))


def candidate_rows(stored: StoredSuite) -> pd.DataFrame:
    """One row per strategy: what it proposed in a run, means over the complete seeds, and why the first one failed."""
    return in_order(stored.frame(_CANDIDATES), stored.config)


def candidate_table(suite: str, data: pd.DataFrame) -> Table:
    """How many candidates a strategy measured, and how many failed."""
    columns = [
        words("arm"),
        Column("seeds", number("seeds", "{:.0f}")),
        Column("generations", number("generations", "{:.1f}")),
        Column("proposed", number("proposed", "{:.1f}")),
        Column("equal to an earlier one", number("twins", "{:.1f}")),
        Column("measured", number("measured", "{:.1f}")),
        Column("of them failed", number("failed", "{:.1f}")),
        words("first failure", "first_reason"),
    ]
    return Table("candidates", f"{suite}: candidates of a run, means over seeds", data, columns)
