"""Families that an arm next to never answers: every mean in distribution has them in it."""

from evolora_core.report.stored import StoredSuite

HOST = "frozen"
NEVER = 0.01  # share of right answers below which a family counts as unanswered
_ANSWERED = """
    SELECT family, condition, sum(correct)::BIGINT AS correct, sum(n)::BIGINT AS n
    FROM holdout_accuracy JOIN complete_seeds USING (suite, seed) JOIN suites USING (suite)
    WHERE suite = $suite AND split = 'holdout_id' GROUP BY family, condition, conditions
    ORDER BY family, list_position(conditions, condition)
"""


def unanswered(stored: StoredSuite) -> list[str]:
    """A sentence on each family in distribution that an arm other than the bare host next to never answers, under the
    headline router and over all complete seeds. None where there is one family alone, whose accuracy is the mean.
    """
    rows = stored.frame(_ANSWERED)
    sentences = []
    for family, arms in rows.groupby("family"):
        never = arms[arms["correct"] < NEVER * arms["n"]]
        if not {*never["condition"]} - {HOST} or len(arms) == len(rows):
            continue
        who = "any arm" if len(never) == len(arms) else ", ".join(f"`{name}`" for name in never["condition"])
        right, asked = never["correct"].max(), never["n"].max()
        how, count = ("hardly", f"at most {right}") if right else ("not", "0")
        sentences.append(
            f"Read means with care: `{family}` is {how} answered by {who} ({count} of {asked} items right), and a mean "
            "in distribution averages it with the other families."
        )
    return sentences
