"""The errors that a user can mend.

EvoloraError
├── ConfigError     a key or value of a YAML file or an override
├── DataError       a holdout or dataset file
├── HostError       a host that is missing, incomplete or of an unknown kind
├── AdapterError    an adapter that does not fit the host
├── StoreError      the DuckDB file: locked, newer, not writable
├── StageError      a stage that cannot run: an artefact is missing or damaged, calibration fails
│   └── Unaffordable    a budget that does not pay for one step
├── PackError       a pack that cannot be built or does not verify
└── Passing         beside one of the others: trying again can help

Each message is one line that names the file, the key or line, and the mend. Everything else that is raised is a
fault of ours.
"""


class EvoloraError(Exception):
    """Base of all errors whose message is meant for the user as it stands."""


class ConfigError(EvoloraError):
    """A key or value of a configuration is wrong."""


class DataError(EvoloraError):
    """A dataset or holdout file is wrong."""


class HostError(EvoloraError):
    """A host cannot be loaded."""


class AdapterError(EvoloraError):
    """An adapter does not fit the host."""


class StoreError(EvoloraError):
    """The store cannot be read or written."""


class StageError(EvoloraError):
    """A stage cannot run with the inputs that it has."""


class Unaffordable(StageError):
    """A budget does not pay for one step."""


class PackError(EvoloraError):
    """A pack cannot be built or does not verify."""


class Passing(EvoloraError):
    """Trying again can help: a lock, a disk, a server."""
