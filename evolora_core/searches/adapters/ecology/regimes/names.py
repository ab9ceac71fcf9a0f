"""The regimes by name: where each is."""

REGIMES: dict[str, str] = {  # name -> module
    "ecology": "evolora_core.searches.adapters.ecology.regimes.ecology",
    "single": "evolora_core.searches.adapters.ecology.regimes.single",
}
