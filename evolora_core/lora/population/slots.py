"""Numbers of slots that mean something."""

HOST = -1  # the bare host, in the place of an adapter
