"""The stages of a merge search, one file each."""
