"""The sentences about comparisons of adapters say which router, and whether an arm is the bare host."""

from evolora_core.searches.adapters.pack.paper import takeaway

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
