"""The names of the splits."""

HOLDOUTS = ("holdout_id", "holdout_ood", "retention")  # looked at once, at the end
SPLITS = ("train", "selection", *HOLDOUTS, "reselection")  # in the order in which they are drawn
