"""The sentences about comparisons of adapters say which router, and whether an arm is the bare host; what two arms
share.
"""

from pathlib import Path

import pytest
from unplotted import TABLES_ALONE

from evolora_core.report import StoredSuite
from evolora_core.report.contents import Contents
from evolora_core.report.pack import readme
from evolora_core.searches.adapters.pack.facts import context
from evolora_core.searches.adapters.pack.paper import takeaway
from evolora_core.store import query
from evolora_core.store.connection import opened, store_path

ROW = {"split": "holdout_id", "a": "ecology", "b": "sft", "n": 2048, "diff": 0.05, "lo": 0.01, "hi": 0.09}
ROW |= {"routing": "single", "verdict": "ecology", "seeds": 8, "p_holm": 0.0312, "note": ""}


def test_an_arm_that_is_the_bare_host_is_told() -> None:
    sentence = (
        "**ecology answers more than sft in distribution, under the router `single`.** +5.0 [+1.0, +9.0] points "
        "(ecology − sft), 8 seeds, Holm p = 0.031."
    )
    assert takeaway(ROW | {"bare": ""}) == sentence
    assert (
        takeaway(ROW | {"bare": "sft in 7 of 8 seeds"}) == f"{sentence} The bare host answers for sft in 7 of 8 seeds."
    )


def test_arms_share_the_flops_only_where_they_spent_them(home: Path) -> None:
    suite = "example-0a1b2c3d"
    spent = dict(query(home, "SELECT condition, sum(total_flops) FROM run_summary GROUP BY ALL").rows)
    for share, words in ((1.0, ", decoding and total FLOPs."), (0.5, " and decoding; `sft` spent 50 % of the FLOPs")):
        with opened(store_path(home)) as connection:
            scale = share * float(spent["ecology"]) / float(spent["sft"])
            connection.execute("UPDATE data.compute SET flops = flops * ? WHERE condition = 'sft'", [scale])
        spent["sft"] = share * float(spent["ecology"])
        assert context(StoredSuite(home, suite))["spent"] == pytest.approx(share)
        text = readme(Contents(home, suite, sections=TABLES_ALONE), [])
        assert f"They share host, items{words}" in " ".join(text.split())
    with opened(store_path(home)) as connection:
        connection.execute("DELETE FROM data.compute WHERE condition = 'sft'")
    assert context(StoredSuite(home, suite))["spent"] is None
