"""Why models cannot be merged."""

from evolora_core.errors import ConfigError


class Misfit(ConfigError, ValueError):
    """A recipe and its models do not fit together. One line; the mend is another recipe or other models."""
