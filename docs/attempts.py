"""A page of every pack that this repository ever kept: how often each suite was attempted, and what came out.

    python docs/attempts.py > docs/attempts.md      # needs the whole history; new packs after `git add`

An attempt is a run of a suite on seeds that it had not had before. The same seeds run again, after a mend of the code
or of the statistics, are the same attempt, made anew.
"""

import csv
import io
import json
import subprocess
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKS = "docs/paper_packs"
HEAD = """# Every attempt

A claim that held in one of five attempts is worth less than one that held in the first. This page lists the packs that
were ever kept here, the replaced ones among them, with what their suites compared; of a pack that was replaced under
the same settings and seeds (`quickstart`, `tickets`, `recall`), the last. It is made by
`python docs/attempts.py > docs/attempts.md` from the repository's history. To read a replaced pack, run
`git show COMMIT:docs/paper_packs/SUITE/README.md`.

- An *attempt* is a run on seeds that the suite had not had before. *Made anew* are the same seeds after a mend of the
  code or of the statistics.
- Code, arms and settings differ between the attempts of a suite ([decisions](decisions.md), notes of the packs).
- Differences are points with 95 % intervals, on the split and under the router named; `headline` is the suite's first.
- [Pilots](pilots/README.md) have a page of their own. Runs that were never kept are named in the notes of the packs.
- Seed 2450 of `smollm2` was run twice, which its [notes](paper_packs/smollm2/NOTES.md) weigh.
"""


class Kept(NamedTuple):
    """A pack as a commit left it; an empty commit stands for what is kept now."""

    pack: str
    commit: str
    suite: str
    seeds: tuple[int, ...]


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def kept_file(commit: str, pack: str, name: str) -> str:
    """The file of a pack as the commit has it; empty where it has none."""
    words = ["git", "show", f"{commit}:{PACKS}/{pack}/{name}"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True).stdout


def history() -> list[Kept]:
    """Every pack, oldest first: one entry for each identity of a suite, as the last commit has it."""
    found: dict[tuple[str, str], Kept] = {}

    def note(commit: str, names: str) -> None:
        for pack in sorted({name.split("/")[2] for name in names.splitlines() if name.count("/") > 2}):
            if text := kept_file(commit, pack, "provenance.json"):
                described = json.loads(text)
                found[pack, described["suite"]] = Kept(
                    pack, commit, described["suite"], tuple(described["config"]["seeds"])
                )

    for commit in git("log", "--reverse", "--format=%h", "--abbrev=10", "--", PACKS).split():
        note(commit, git("diff-tree", "--root", "-r", "--no-commit-id", "--name-only", commit, "--", PACKS))
    note("", git("ls-files", PACKS))
    return list(found.values())


def seeds_of(seeds: tuple[int, ...]) -> str:
    together = len(seeds) > 1 and seeds == tuple(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]}–{seeds[-1]}" if together else ", ".join(map(str, seeds))


def compared(kept: Kept) -> list[str]:
    """The rows of the pack's table of comparisons; none where it has no differences in points."""
    table = csv.DictReader(io.StringIO(kept_file(kept.commit, kept.pack, "comparisons.csv")))
    rows = []
    for row in table:
        if "diff" not in row:
            return []
        difference, low, high = (
            f"{100 * float(row[column]):+.1f}".replace("-", "−") for column in ("diff", "lo", "hi")
        )
        router = row.get("routing") or "headline"
        verdict = row["verdict"] if row["verdict"] == "undecided" else f"{row['verdict']} ahead"
        said = "; ".join(part for part in (verdict, row.get("note", "")) if part)
        rows.append(f"| {row['a']} − {row['b']} | {row['split']}, {router} | {difference} [{low}, {high}] | {said} |")
    return rows


def page(packs: list[Kept]) -> str:
    lines = [HEAD, "| suite | attempts | made anew | seeds |", "| --- | --: | --: | --- |"]
    names = sorted({kept.pack for kept in packs})
    for name in names:
        of = [kept for kept in packs if kept.pack == name]
        attempts = list(dict.fromkeys(kept.seeds for kept in of))
        seeds = "; ".join(map(seeds_of, attempts))
        lines.append(f"| {name} | {len(attempts)} | {len(of) - len(attempts)} | {seeds} |")
    for name in names:
        lines += ["", f"## {name}"]
        attempts = []
        for kept in (kept for kept in packs if kept.pack == name):
            anew = kept.seeds in attempts
            attempts += [] if anew else [kept.seeds]
            title = f"Attempt {attempts.index(kept.seeds) + 1}{', made anew' if anew else ''}"
            where = f"commit {kept.commit}" if kept.commit else "kept"
            lines += ["", f"**{title}**: `{kept.suite}`, seeds {seeds_of(kept.seeds)}, {where}.", ""]
            rows = compared(kept)
            if rows:
                lines += ["| compared | split, router | points | verdict |", "| --- | --- | --: | --- |", *rows]
            else:
                lines.append("It has no differences in points; its figures are in the pack.")
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(history()))
