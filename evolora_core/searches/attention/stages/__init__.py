"""The stages of the attention search, one file each."""
