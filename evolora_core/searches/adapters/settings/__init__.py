"""The settings of an adapter search, a file for each section of its YAML file."""
