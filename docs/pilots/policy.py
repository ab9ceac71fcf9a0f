"""Can an organelle of these hosts say what it wants to do, as `key=value` pairs? The bare host is asked in 32 states.

An answer is usable if it begins with a number from 0 to 2, with the key or without; more a policy channel cannot use.
The prompt says that the number is to grow with energy, so that rank correlation would be 1 where it is followed.

    python docs/pilots/policy.py           # with smollm2-135m-q4 fetched; three minutes of one core
"""

import re

import pandas as pd

from evolora_core.errors import EvoloraError
from evolora_core.language.hosts.host import load_host
from evolora_core.lora.population.generate import generate

STATES = [(energy, ticket) for energy in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0) for ticket in (0.1, 0.5, 1.0, 2.0)]
PROMPT = (
    "You take part in a market. Your energy is {energy}. A ticket costs {ticket}. Choose budget_frac between "
    "0.3 and 1.8: the more energy, the larger. Answer with one line of the form key=value, for example budget_frac=0.7"
)
FORM = re.compile(r"\W*(?:budget_frac\W*)?(\d+(?:\.\d+)?)")


def said(text: str) -> float | None:
    """The number that an answer gives."""
    found = FORM.match(text)
    return float(found[1]) if found and float(found[1]) <= 2 else None


rows = []
for name in ("nano", "smollm2-135m-q4"):
    try:
        host = load_host(name)
    except EvoloraError as error:
        print(error)
        continue
    prompts = host.encode_prompts([PROMPT.format(energy=energy, ticket=ticket) for energy, ticket in STATES])
    answers = generate(host, None, prompts, [-1] * len(prompts), max_new_tokens=24)
    numbers = [said(host.decode(answer.tokens)) for answer in answers]
    told = pd.DataFrame({"energy": [energy for energy, _ in STATES], "number": numbers})
    known = told.dropna()
    rank = known["energy"].rank().corr(known["number"].rank()) if known["number"].nunique() > 1 else float("nan")
    rows.append((name, 100 * told["number"].notna().mean(), known["number"].nunique(), rank))
print(
    pd.DataFrame(rows, columns=["host", "usable %", "different numbers", "rank correlation with energy"])
    .round(2)
    .to_string(index=False)
)
