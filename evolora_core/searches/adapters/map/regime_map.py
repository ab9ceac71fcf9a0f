"""The map: what several packs found about ecologies against fine-tuned arms, and against one organelle alone, a table
and a plot each.

It is read from packs, which are what is kept of a run, and needs no store. Verdicts are those of the packs: Holm's
adjustment is over the comparisons of one suite, and the map says what an adjustment over all its rows would leave. A
pack's folder may hold WITHDRAWALS, which names comparisons whose verdict no longer stands, and why.
"""

import logging
import textwrap
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from evolora_core.errors import PackError
from evolora_core.foreign.documents import read_json
from evolora_core.foreign.files import read_text
from evolora_core.language.splits import title
from evolora_core.report.comparisons import p_over_seeds
from evolora_core.report.pack_folder import read_stamp
from evolora_core.report.plots import save
from evolora_core.report.tables import Column, Table, csv, difference, share, words
from evolora_core.searches.adapters.map.forest import QUESTIONS, WITHDRAWN, Question, forest, many
from evolora_core.searches.adapters.map.overview import ALT, TITLE, overview
from evolora_core.searches.adapters.map.overview import FILE as OVERVIEW
from evolora_core.searches.adapters.settings.arms import leaves
from evolora_core.searches.base import DEFAULT
from evolora_core.statistics.inference import UNDECIDED

log = logging.getLogger(__name__)

COLUMNS = [
    "question", "suite", "host", "regime", "named", "split", "routing", "evolved", "rival", "n", "seeds", "diff", "lo",
    "hi", "p", "p_holm", "verdict", "note", "bare", "evolved_flops", "rival_flops", "gold",
]  # fmt: skip
# Of columns in a pack's tables, which may come from anybody: what is no number there is a ValueError.
TYPES = {
    **dict.fromkeys(("regime", "split", "note", "bare"), str),
    **dict.fromkeys(("n", "seeds"), int),
    **dict.fromkeys(("diff", "lo", "hi", "p", "p_holm"), float),
}
MEANS = {"total_flops": float, "seeds": int}
WITHDRAWALS = "withdrawn.json"
READING = """\
Each row is a comparison that its suite's file declares, whatever came of it (its pack's notes say if it was added
after a first run). It shows the accuracy of an ecology, or of a population of plain founders, less that of its rival,
mean over seeds with a 95 % interval. The rival is a fine-tuned arm or one organelle alone. A fine-tuned arm learns from
gold answers and asks no verifier while it learns. All others search from rewards: they ask a verifier hundreds or
thousands of times and see no gold answer{gold}.

*Search* and *fine-tune*, *population* and *one adapter* are verdicts: at least five seeds, a Holm p below 0.05 (which
takes six) and an interval clear of zero. With fewer seeds each seed must agree by its own paired test, and the note
says that the verdict is about these runs only. *Undecided* does not mean equal. *Withdrawn*: the pack gave a verdict,
and the note says why it does not stand.

{many}

*Bare host*: on that split the router asked the frozen host for every item, in so many seeds (an older pack does not
say). A verdict for an arm that was the bare host is no merit of that arm.

Equal compute: a suite's budget is what one of its arms, `ecology` unless its file names another as `budget_of`, spent
with the same seed on answers, updates, calibration, tests of merges, selection and routing. Every other arm may spend
so many FLOPs, or a multiple of them where its own budget says so. *FLOPs spent* is what the rival did spend, relative
to the ecology of its row; a dash where the two were not run with the same seeds. It is far below 1 where the rival had
few labels: the passes that the suite allowed or tuning offered did not spend the rest. FLOPs are algorithmic. They
leave out tuning, in which every arm had equally many trials, and the evaluation on the holdouts.
"""
NOWHERE = "it compares no ecology with a fine-tuned arm or with `single`"


def build_map(packs: Sequence[Path], out: Path, forms: Sequence[str] = ("png",)) -> Path:
    """Write map.csv and map.md of the packs in the folders `packs` into the folder `out`, and plots in each of `forms`
    (png, svg): one for each question that they answer, `search`, against fine-tuned arms, and `population`, against
    `single`; and the `overview` of the comparisons that their suites gave a regime.

    Returns `out`. A pack that has no place on the map is left out with a warning. Raises PackError if none has one, for
    a folder that is no whole pack, and for a suite that is given twice.
    """
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise PackError(f"{out}: is a file; name a folder")
    if not packs:
        raise PackError("no pack is given; name folders such as packs/regimes")
    found = [(folder, places(Path(folder))) for folder in packs]
    parts = [part for _, part in found if len(part)]
    if not parts:
        raise PackError(f"{packs[0]}: {NOWHERE}, so it has no place on the map")
    for folder in (folder for folder, part in found if part.empty):
        log.warning("%s: %s; left out", folder, NOWHERE)
    suites = [part["suite"][0] for part in parts]
    if twice := sorted({suite for suite in suites if suites.count(suite) > 1}):
        raise PackError(f"{twice[0]}: two of the packs are of this suite; name one of them")
    whole = pd.concat(parts, ignore_index=True)
    out.mkdir(parents=True, exist_ok=True)
    pages, named = [], whole[whole["named"]]
    if len(named):
        for form in forms:
            save(overview(named), out, OVERVIEW, form)
        pages.append(f"# {TITLE}\n\n![{ALT}]({OVERVIEW}.png)\n\nAll rows, and what they mean, stand below.\n\n")
    for question in QUESTIONS:
        rows = whole[whole["question"] == question.file]
        if len(rows):
            for form in forms:
                save(forest(rows, question), out, question.file, form)
            table = map_table(rows, question)
            plot = f"![{question.title}: one row for each comparison]({question.file}.png)"
            pages.append(f"# {table.caption}\n\n{table.to_markdown()}\n{plot}\n\n")
    (out / "map.csv").write_text(csv(whole), encoding="utf-8")
    reading = READING.format(many=many(whole, "rows of the map"), gold=_but_for(whole))
    wrapped = [textwrap.fill(part, 120, break_on_hyphens=False) for part in reading.split("\n\n")]
    reading = "\n\n".join(wrapped) + "\n"
    (out / "map.md").write_text("".join(pages) + reading, encoding="utf-8")
    return out


def _but_for(found: pd.DataFrame) -> str:
    """The end of the sentence that who searches from rewards sees no gold answer: who does."""
    rows = found.to_dict("records")
    seen = dict.fromkeys(f"`{row['suite']}.{arm}`" for row in rows for arm in str(row["gold"]).split(", ") if arm)
    return f", but for {', '.join(seen)}, which are given some" if seen else ""


def _withdrawn(pack: Path) -> list[dict[str, str]]:
    """What the pack withdraws: `a` and `b` (in any order), `reason`, and `split` and `routing` where only such
    comparisons of the two no longer stand. Raises ValueError or KeyError if damaged.
    """
    file = pack / WITHDRAWALS
    entries = read_json(read_text(file)) if file.is_file() else []
    for entry in entries:
        if missing := {"a", "b", "reason"} - {*entry}:
            raise KeyError(f"{WITHDRAWALS}: {min(missing)}")
        if unknown := {*entry} - {"a", "b", "split", "routing", "reason"}:
            raise ValueError(f"{WITHDRAWALS}: unknown key {min(unknown)!r}")
    return list(entries)


def _covers(entry: dict[str, str], row: dict[str, Any]) -> bool:
    same = {entry["a"], entry["b"]} == {row["evolved"], row["rival"]}
    return same and all(entry.get(key) in (None, row[key]) for key in ("split", "routing"))


def places(pack: Path) -> pd.DataFrame:
    """What a pack says about an ecology against its rivals, question by question, in the order in which its suite
    declared it.

    Columns: COLUMNS; `question` is the `file` of one of QUESTIONS, `verdict` is in its words or WITHDRAWN; `diff`,
    `lo` and `hi` are shares, ecology less rival, whichever was declared first; the FLOPs are means over seeds, none
    where the two were not run with the same; `gold` names those of the two that search from rewards and see gold
    answers too. A comparison without a regime is called by its arms, and is not `named`. No rows if there is no such
    comparison.
    """
    stamp = read_stamp(pack)
    if stamp["config"].get("search", DEFAULT) != DEFAULT:  # another search's tables are others
        return pd.DataFrame(columns=COLUMNS)
    try:
        for name in ("comparisons.csv", "paper_table.csv"):
            read_text(pack / name)  # an ordinary file of bounded size, in UTF-8
        # An empty note is no missing one, a regime or split called `8` is no number, a condition may be called `null`.
        found = pd.read_csv(pack / "comparisons.csv", keep_default_na=False, dtype=TYPES)
        means = pd.read_csv(
            pack / "paper_table.csv", keep_default_na=False, na_values={"total_flops": [""]}, dtype=MEANS
        ).set_index("condition")
        gold = _golden(stamp["config"], pack)
        rows = [row for question in QUESTIONS for row in _rows(stamp["config"], found, means, gold, question)]
        for entry in _withdrawn(pack):
            for row in rows:
                if row["verdict"] != UNDECIDED and _covers(entry, row):
                    row |= {"verdict": WITHDRAWN, "note": entry["reason"]}
        named = [{"suite": stamp["suite"], "host": stamp["config"]["host"]} | row for row in rows]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:  # nothing in it need have its form
        raise PackError(f"{pack}: damaged or not whole ({error}); build the pack again") from error
    return pd.DataFrame(named, columns=COLUMNS)


def _golden(config: dict[str, Any], pack: Path) -> set[str]:
    """The conditions that search from rewards and see gold answers too, by the settings that tuning chose."""
    arms, chosen = config.get("arms", {}), dict[str, Any]()
    if (pack / "tuning.csv").is_file():
        tuning = pd.read_csv(StringIO(read_text(pack / "tuning.csv")), keep_default_na=False)
        tuning = tuning[tuning["chosen"].astype(str) == "True"]
        chosen = {own: read_json(changes) for own, changes in zip(tuning["condition"], tuning["changes"], strict=True)}
    found = set()
    for condition in config["conditions"]:
        arm = arms.get(condition, {})
        if arm.get("like", condition) in ("ecology", "single"):
            own = leaves(config["ecology"]) | leaves(arm.get("changes", {})) | leaves(chosen.get(condition, {}))
            if own["plasticity.rule"] == "gold" or own.get("memory.labels", 0) > 0:
                found.add(condition)
    return found


def _rows(
    config: dict[str, Any], found: pd.DataFrame, means: pd.DataFrame, gold: set[str], question: Question
) -> list[dict[str, Any]]:
    """The rows of one pack for one question, without suite and host. What was declared of conditions that were not
    run with one seed is in none.
    """
    flops = means["total_flops"]
    arms = config.get("arms", {})
    kinds = {condition: arms.get(condition, {}).get("like", condition) for condition in config["conditions"]}
    by_key = {(r["split"], r["a"], r["b"], r["routing"]): r for r in found.to_dict("records")}
    rows = []
    for pair in config["evaluation"]["comparisons"]:
        key = pair["split"], pair["a"], pair["b"], pair.get("routing") or "headline"
        if {kinds[pair["a"]], kinds[pair["b"]]} != {"ecology", question.rival}:
            continue
        if key not in by_key and "not_run" in means:
            continue
        row = by_key[key]
        reversed_ = kinds[pair["a"]] == question.rival
        evolved, rival = (pair["b"], pair["a"]) if reversed_ else (pair["a"], pair["b"])
        diff, lo, hi = (-row["diff"], -row["hi"], -row["lo"]) if reversed_ else (row["diff"], row["lo"], row["hi"])
        alike = means.loc[[evolved, rival], "seeds"].eq(row["seeds"]).all()  # or these are means over other seeds
        rows.append(
            {"question": question.file, "regime": row.get("regime", ""), "split": pair["split"]}
            | {"bare": row.get("bare", "")}
            | {"evolved": evolved, "rival": rival}
            | {"routing": pair.get("routing") or config["evaluation"]["routings"][0]}
            | {name: row[name] for name in ("n", "seeds", "p", "p_holm", "note")}
            | {"diff": diff, "lo": lo, "hi": hi, "gold": ", ".join(arm for arm in (evolved, rival) if arm in gold)}
            | {
                f"{side}_flops": flops[arm] if alike else np.nan
                for side, arm in (("evolved", evolved), ("rival", rival))
            }
            | {"verdict": {evolved: question.yes, rival: question.no, UNDECIDED: UNDECIDED}[row["verdict"]]}
        )
    return [
        row | {"named": bool(row["regime"]), "regime": row["regime"] or f"{row['evolved']} against {row['rival']}"}
        for row in rows
    ]


def map_table(found: pd.DataFrame, question: Question) -> Table:
    """The map's answers to one question as a table of one row per place."""
    columns = [
        words("suite"),
        words("host"),
        words("regime"),
        Column("split", lambda r: title(r["split"]), left=True),
        words("routing"),
        Column(question.difference, lambda r: difference(r["diff"], r["lo"], r["hi"])),
        Column("Holm p", lambda r: p_over_seeds(r["p_holm"], r["seeds"])),
        Column("seeds", lambda r: str(r["seeds"])),
        Column("FLOPs spent", lambda r: share(r["rival_flops"], r["evolved_flops"])),
        words("verdict"),
        words("note"),
        words("bare host", "bare"),
    ]
    return Table(question.file, question.title, found, columns)
