"""Numbers of slots that mean something."""

HOST = -1  # the bare host, in the place of an adapter
PROMPTED = -2  # the host without an adapter, after solved examples: in outcomes, of who answered
