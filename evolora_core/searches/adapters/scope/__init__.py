"""One page of a finished suite: what was asked and found, the ecology over time, learning curves, and all answers.

`page.py` puts it together of what the store has (`stored.py`, `answers.py`) and of interactive plots (`outcome.py`,
`learning.py`, `ecology.py`), which Vega draws from what Altair describes. It needs the extra `scope`.
"""
