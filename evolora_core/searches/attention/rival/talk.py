"""What OpenEvolve's processes ask of the search: to measure a program, to change another one. Nothing is run or scored
here, and nothing that is held out is known.

OpenEvolve loads this file as its evaluator, and `Offline` in the place of a language model.
"""

import json
import os
import re
import signal
import socket
from pathlib import Path
from typing import Any

SOCKET = "EVOLORA_RIVAL_SOCKET"  # where the search listens
_CURRENT = re.compile(r"^# Current Program\n```\w*\n(.*?)\n```", re.MULTILINE | re.DOTALL)


def ask(question: dict[str, Any]) -> dict[str, Any]:
    """The answer of the search. Where it is gone OpenEvolve ends, with all its processes, which are a group of their
    own.
    """
    address = os.environ[SOCKET]
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(address)
            with line.makefile("rw", encoding="utf-8") as file:
                file.write(json.dumps(question) + "\n")
                file.flush()
                answer: dict[str, Any] = json.loads(file.readline())
                return answer
    except (OSError, ValueError):
        os.killpg(0, signal.SIGKILL)
        raise


def evaluate(program_path: str) -> Any:
    """The score of a program, for OpenEvolve, and why it was refused."""
    from openevolve.evaluation_result import EvaluationResult

    answer = ask({"measure": Path(program_path).read_text(encoding="utf-8")})
    told = {"refused": answer["reason"]} if answer["reason"] else {}
    return EvaluationResult(metrics={"combined_score": answer["score"]}, artifacts=told)


class Offline:
    """In the place of a language model: the grammar changes one gene of the current program."""

    def __init__(self, config: Any) -> None:
        self.model = config.name

    async def generate(self, prompt: str, **_: Any) -> str:
        """The whole new program, in a code block."""
        found = _CURRENT.search(prompt)
        if found is None:
            raise ValueError("the prompt has no current program")
        return f"```python\n{ask({'change': found.group(1)})['program']}\n```"

    async def generate_with_context(self, system_message: str, messages: list[dict[str, str]], **_: Any) -> str:
        """The same, of the last message."""
        return await self.generate(messages[-1]["content"])
