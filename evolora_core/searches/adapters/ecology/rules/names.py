"""The learning rules by name: where each is."""

RULES: dict[str, str] = {  # name -> module
    "none": "evolora_core.searches.adapters.ecology.rules.none",
    "reinforce": "evolora_core.searches.adapters.ecology.rules.reinforce",
    "search": "evolora_core.searches.adapters.ecology.rules.search",
    "grpo": "evolora_core.searches.adapters.ecology.rules.grpo",
    "hebbian": "evolora_core.searches.adapters.ecology.rules.hebbian",
    "es": "evolora_core.searches.adapters.ecology.rules.es",
    "gold": "evolora_core.searches.adapters.ecology.rules.gold",
}
