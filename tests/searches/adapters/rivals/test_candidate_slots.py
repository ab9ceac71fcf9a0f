"""The slots of a supervised rival's adapters, and the sum of some of them."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from evolora_core.lora.population.candidates import add_candidate, load_candidates, write_candidates
from evolora_core.lora.population.merge import add_up
from evolora_core.lora.population.peft_io import export_peft
from evolora_core.lora.population.stack import Population


def test_a_sum_is_one_more_candidate_and_is_loaded_like_the_others(host: Any, tmp_path: Path) -> None:
    trained = Population.empty(host, 2, 2)
    for slot, name in enumerate(("math", "logic.bool")):
        trained.init_slot(slot, 2, np.random.default_rng(slot))
        for B in trained.B.values():
            B[slot].normal_(generator=torch.Generator().manual_seed(slot))
        export_peft(trained.get(slot), host, tmp_path / name / "adapter")
    rows = write_candidates(tmp_path, ["math", "logic.bool"], [1.0, 0.5])
    assert [(row["slot"], row["adapter"], row["strength"]) for row in rows][3] == (3, "logic.bool", 0.5)
    before = load_candidates(host, tmp_path)
    assert before.capacity == 4
    population = add_candidate(host, tmp_path, [3, 0], 0.85)
    again = load_candidates(host, tmp_path)
    wanted = add_up([before.get(3), before.get(0)], 0.85)
    assert wanted.rank == 3
    for own in (population, again):
        assert own.capacity == 5 and own.ranks.tolist() == [2, 2, 2, 2, 3]
        for name in wanted.A:
            torch.testing.assert_close(own.get(4).delta(name), wanted.delta(name), atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(own.get(3).delta(name), before.get(3).delta(name))
