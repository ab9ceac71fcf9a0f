"""The plan of an attention suite, by run seed: corpus → rates → every mechanism → the law → searches → judging."""

from collections.abc import Mapping

from evolora_core.engine.run_index import step_name
from evolora_core.engine.stage import JUDGED, SHARED, Step, Suite
from evolora_core.searches.attention.experiment import AttentionExperiment
from evolora_core.searches.attention.known.registry import BASELINE
from evolora_core.searches.attention.stages.ablate import ABLATE
from evolora_core.searches.attention.stages.corpus import CORPUS
from evolora_core.searches.attention.stages.ensemble import ENSEMBLE
from evolora_core.searches.attention.stages.evaluate import EVALUATE
from evolora_core.searches.attention.stages.law import FIT
from evolora_core.searches.attention.stages.mechanism import MEASURE
from evolora_core.searches.attention.stages.rates import TUNE
from evolora_core.searches.attention.stages.replay import REPLAY
from evolora_core.searches.attention.stages.search import SEARCH
from evolora_core.searches.attention.stages.table import TABLE_SHARD
from evolora_core.searches.attention.stages.table_scores import TABLE_SCORES


def plan(suite: Suite[AttentionExperiment]) -> list[Step]:
    """All stages but those that close the suite: what others wait for first, then searches, which take longest."""
    config = suite.config
    shared: list[Step] = []
    searches: list[Step] = []
    judged: list[Step] = []
    tables: list[Step] = []
    for seed in config.seeds:
        given = {"suite": suite, "seed": seed}
        corpus = Step(step_name(SHARED, seed, "corpus"), CORPUS, given)
        rates = Step(step_name(SHARED, seed, "rates"), TUNE, given, {"corpus": corpus})
        on = {"corpus": corpus, "rates": rates}
        measured = {
            name: Step(step_name(name, seed, "measure"), MEASURE, {**given, "condition": name}, on)
            for name in config.mechanisms
        }
        law = Step(step_name(SHARED, seed, "law"), FIT, given, {"measured": list(measured.values())})
        shared += [corpus, rates, *measured.values(), law]
        beside = {**on, "baseline": measured[BASELINE]}
        for name in config.conditions:
            own = {**given, "condition": name}
            chosen = measured.get(name)
            if chosen is None:
                chosen = Step(step_name(name, seed, "search"), SEARCH, own, beside)
                searches.append(chosen)
                genes = not config.proposer_of(name)  # what a model writes has none
                if config.ablation.sizes and config.ablation.covers(name) and genes:
                    judged.append(Step(step_name(name, seed, "ablate"), ABLATE, own, {**on, "chosen": chosen}))
                if config.ensemble.models and config.ensemble.covers(name):
                    judged.append(Step(step_name(name, seed, "ensemble"), ENSEMBLE, own, {**on, "chosen": chosen}))
            judged.append(Step(step_name(name, seed, JUDGED), EVALUATE, own, {**beside, "law": law, "chosen": chosen}))
        if config.table:
            tables += table(suite, seed, on)
    return [*shared, *searches, *judged, *tables]


def table(suite: Suite[AttentionExperiment], seed: int, on: Mapping[str, Step]) -> list[Step]:
    """Every program of the small grammar, the small sizes first, and strategies replayed on them."""
    settings = suite.config.table
    assert settings is not None
    given = {"suite": suite, "seed": seed}
    shards = [
        Step(step_name(SHARED, seed, f"table-{size}-{own}"), TABLE_SHARD, {**given, "size": size, "shard": own}, on)
        for size in settings.sizes
        for own in range(settings.shards)
    ]
    scores = Step(step_name(SHARED, seed, "table-scores"), TABLE_SCORES, given, {"shards": shards})
    replays = [
        Step(step_name(SHARED, seed, f"replay-{name}"), REPLAY, {**given, "strategy": name}, {"scores": scores})
        for name in settings.strategies
    ]
    return [*shards, scores, *replays]
