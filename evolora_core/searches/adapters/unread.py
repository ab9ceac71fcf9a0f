"""Settings that a run does not read: trials that differ in nothing else are one run."""

from typing import Any

from evolora_core.searches.adapters.settings.ecology import EcologyConfig
from evolora_core.searches.adapters.settings.sft import SftConfig

OF_ONE_RULE = {
    "search": {"partial_credit", "calls"},
    "grpo": {"clip_ratio", "kl"},
    "hebbian": {"hebbian_rate", "trace_decay"},
    "es": {"pairs", "sigma"},
}
RATELESS = ("hebbian", "none")  # rules without the learning rate
OF_MANY = ("population", "variation", "inheritance", "assimilation")  # what one organelle alone has no use for


def unread(section: Any, peopled: bool) -> dict[str, Any]:
    """Settings that a run does not read, in the form of the argument `exclude` of `model_dump`."""
    if isinstance(section, EcologyConfig):
        rule = section.plasticity.rule
        own = set().union(*(keys for other, keys in OF_ONE_RULE.items() if other != rule))
        if rule in RATELESS or section.prior.learning_rate:
            own.add("learning_rate")
        # The first answer of `search` is greedy, others vary by design.
        unheated = {"temperature": True} if rule == "search" else {}
        return {"plasticity": own} | unheated | ({} if peopled else dict.fromkeys(OF_MANY, True))
    drawn = isinstance(section, SftConfig) and section.prior.learning_rate
    return {"learning_rate": True} if drawn or getattr(section, "update", "") == "best" else {}
