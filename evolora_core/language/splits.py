"""The names of the splits, and what people call them."""

HOLDOUTS = ("holdout_id", "holdout_ood", "retention")  # looked at once, at the end
SPLITS = ("train", "selection", *HOLDOUTS, "reselection")  # in the order in which they are drawn
TITLES = {"holdout_id": "in distribution", "holdout_ood": "out of distribution", "retention": "retention"}
_WHERE = TITLES | {"retention": "on the retention families"}


def title(split: str) -> str:
    """What people call a split in a table or a plot: its own name, where a search has others than these."""
    return TITLES.get(split, split.replace("_", " "))


def where(split: str) -> str:
    """The same within a sentence."""
    return _WHERE.get(split, f"on {title(split)}")


def in_order(splits: set[str]) -> list[str]:
    """The holdouts first, in their order, then others by name."""
    return [split for split in HOLDOUTS if split in splits] + sorted(splits - {*HOLDOUTS})
