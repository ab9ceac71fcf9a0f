"""Names that the stages of a merge search share: of models, and of what lies in their folders."""

BASE = "base"  # the model that all parents come from
MODEL = "model"  # folder of a model that a stage made
SOURCE = "source.json"  # of a stage that made none: where the model is


def role(parent: str) -> str:
    """Under which role a stage gets a parent."""
    return f"parent-{parent}"
