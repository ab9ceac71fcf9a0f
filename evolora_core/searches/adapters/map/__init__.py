"""The map: what several packs of the adapter search found, side by side."""
