"""OpenEvolve in a process of its own: it installs signal handlers, changes the root logger and runs an event loop.

Its settings are those that it ships, but for whole programs instead of edits, since the grammar writes whole ones.
"""

import asyncio
import json
import sys
from pathlib import Path

from evolora_core.searches.attention.rival import talk

NEVER = 10**9


def main(folder: Path) -> None:
    """Search from program.py in the folder, as settings.json says, until all iterations are done or it is killed."""
    from openevolve import OpenEvolve
    from openevolve.config import Config, LLMModelConfig

    asked = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    config = Config()
    config.random_seed = asked["seed"]
    config.language = "python"
    config.diff_based_evolution = False
    config.max_code_length = asked["longest"]
    config.checkpoint_interval = NEVER
    config.log_level = "WARNING"
    config.llm.models = [LLMModelConfig(name="grammar", init_client=talk.Offline)]
    config.llm.evaluator_models = list(config.llm.models)
    config.evaluator.timeout = NEVER  # the search has a limit of its own
    config.evaluator.max_retries = 0
    config.evaluator.cascade_evaluation = False
    config.evaluator.parallel_evaluations = asked["parallel"]
    search = OpenEvolve(
        initial_program_path=str(folder / "program.py"),
        evaluation_file=talk.__file__,
        config=config,
        output_dir=str(folder / "output"),
    )
    asyncio.run(search.run(iterations=asked["iterations"]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
