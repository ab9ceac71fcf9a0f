"""Routes whose common layers are run once are measured as if each had been run whole."""

from pathlib import Path

import numpy as np
import pytest
from test_judged_architectures import tiny_judge

from evolora_core.errors import ConfigError
from evolora_core.searches.merging.judging.judge import Judge
from evolora_core.searches.merging.judging.prefixes import Prefixes
from evolora_core.searches.merging.pool import Pool
from evolora_core.searches.merging.spaces.routes import Routes
from evolora_core.searches.merging.stages.landscape import stretch


@pytest.fixture
def space(pool: Pool) -> Routes:
    """Routes over three parents."""
    return Routes(pool.parents, pool.layers, "base")


def test_a_walk_measures_what_whole_models_would(judge: Judge, pool: Pool, space: Routes) -> None:
    rng = np.random.default_rng(4)
    drawn = [space.drawn(rng) for _ in range(8)]
    routes = sorted([*drawn, (0, 0, 0, 1), (2, 2, 2, 2), *((*own[:3], 1 + own[0] % 5) for own in drawn)])
    walk = Prefixes(judge, space)
    for genes in routes:
        model = judge.merged(space.genome(genes))
        for split, found in walk.judge(genes).items():
            whole = judge.measure_model(model, split)
            assert found.domains == pytest.approx(whole.domains, abs=1e-5), (genes, split)
            assert found.solved.tolist() == whole.solved.tolist()


def test_a_route_is_charged_whole_and_only_what_was_run_counts_as_executed(judge: Judge, space: Routes) -> None:
    one, other = (2, 2, 2, 2), (2, 2, 2, 1)
    walk = Prefixes(judge, space)
    walk.judge(one)
    first = judge.meter.rows()[0]
    walk.judge(other)
    both = judge.meter.rows()[0]
    assert first["flops"] == first["executed_flops"] == judge.cost_of(judge.merged(space.genome(one)), "search")
    budget, executed = (both[key] - first[key] for key in ("flops", "executed_flops"))
    assert budget == judge.cost_of(judge.merged(space.genome(other)), "search") > 2 * executed > 0


def test_the_check_compares_with_a_whole_model(judge: Judge, space: Routes, tmp_path: Path) -> None:
    """A decoder of one layer of OPT adds learned positions again."""
    Prefixes(judge, space).check()
    other = tiny_judge(tmp_path, "opt", word_embed_proj_dim=32, max_position_embeddings=512)
    with pytest.raises(ConfigError, match=r"the layers of OPTForCausalLM one by one are not the model \(-\d"):
        Prefixes(other, Routes(other.pool.parents, other.pool.layers, "base")).check()


def test_shards_are_all_models_once_and_neighbours_begin_alike(space: Routes) -> None:
    shards = [stretch(space, number, 5) for number in range(5)]
    everything = [number for shard in shards for number in shard]
    assert sorted(everything) == list(range(space.models))
    genes = [space.numbered(number) for number in everything]
    changed = sum(one[:3] != other[:3] for one, other in zip(genes, genes[1:], strict=False))
    assert changed == space.alleles**3 - 1  # each beginning of three comes once
