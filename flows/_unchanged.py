"""Since when the code of a process counts."""

import os
from contextlib import AbstractContextManager, nullcontext

from evolora_core.engine.identity import STARTED, code_as_it_is


def unchanged_code() -> AbstractContextManager[None]:
    """`code_as_it_is`, since the outermost of these began: `evolora run` imports what it computes with before Prefect's
    server is there, which can take minutes.
    """
    return nullcontext() if STARTED in os.environ else code_as_it_is()
