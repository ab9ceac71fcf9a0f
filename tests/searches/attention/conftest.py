from collections.abc import Iterator

import pytest
from kept_sandboxes import kept_sandboxes


@pytest.fixture(scope="module", autouse=True)
def _kept() -> Iterator[None]:
    """Sandboxes start once for many tests."""
    with pytest.MonkeyPatch.context() as patch, kept_sandboxes(patch):
        yield
