"""A regime by its name."""

from importlib import import_module

from evolora_core.searches.adapters.ecology.regime import Regime
from evolora_core.searches.adapters.ecology.regimes.names import REGIMES


def regime(name: str) -> Regime:
    """The regime of that name. KeyError: there is none."""
    found: Regime = import_module(REGIMES[name]).REGIME
    return found
