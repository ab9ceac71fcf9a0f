"""Keeps transformers' progress bars off anything that is not a terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def bars_on_terminals_only() -> Iterator[None]:
    """Within it, loading and saving show their bars only if standard error is a terminal."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    if shown and not sys.stderr.isatty():
        logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


@contextmanager
def quiet() -> Iterator[None]:
    """Let transformers say nothing but errors: what it would say quotes a host's files, escapes and all."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)
