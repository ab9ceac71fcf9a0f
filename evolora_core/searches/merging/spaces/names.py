"""The spaces by name, so that a suite's file and a page can name them without one of their modules."""

_HERE = "evolora_core.searches.merging.spaces"
NAMES: dict[str, str] = {  # name -> module, whose function `make` gives the space
    "smooth": f"{_HERE}.smooth",
    "operators": f"{_HERE}.operators",
    "routes": f"{_HERE}.routes",
    "flow": f"{_HERE}.flow",
}
