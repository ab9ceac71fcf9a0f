"""The mark of tests that need a kernel which can confine programs: elsewhere foreign programs are refused."""

import pytest

from evolora_core.sandbox.run import refusal

confined = pytest.mark.skipif(bool(refusal()), reason=refusal() or "programs can be confined")
