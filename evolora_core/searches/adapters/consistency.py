"""Which settings of a suite fit together: what would have no effect, or could not be run, is refused before anything
runs. Each function raises ValueError, which names the key and the mend.
"""

from typing import Any

from evolora_core.engine.stage import SHARED, WHOLE
from evolora_core.engine.strict import repeated
from evolora_core.searches.adapters.arms.kinds import KINDS
from evolora_core.searches.adapters.settings.arms import leaves
from evolora_core.searches.adapters.settings.ecology import EcologyConfig
from evolora_core.searches.adapters.settings.sft import SftConfig
from evolora_core.searches.adapters.settings.suite import TUNING, SuiteSettings
from evolora_core.searches.adapters.unread import unread, unread_by


def check_fit(suite: SuiteSettings) -> None:
    """All that this module refuses."""
    check_lists(suite)
    check_names(suite)
    check_budget(suite)
    check_arrivals(suite)
    for name in suite.tuned:
        check_trials(suite, name)
        check_peopled(suite, name)
        check_heard(suite, name)
    for name in suite.trained:
        check_remembered(suite, name)
    check_verifier(suite)
    check_comparisons(suite)


def check_lists(suite: SuiteSettings) -> None:
    """Nothing stands twice in a list, no seed is tuned on and reported, and `reselected` has items to choose on."""
    if ("reselected" in suite.evaluation.routings) != (suite.data.reselection_items > 0):
        raise ValueError(
            "data.reselection_items: the router `reselected` chooses on them; have both, or 0 and no such router"
        )
    if suite.evaluation.strengths == [1.0]:
        raise ValueError("evaluation.strengths: 1 is always among them; name others, or none")
    for key, values in (
        ("tuning.seeds", suite.tuning.seeds),
        ("data.depths", suite.data.depths),
        ("evaluation.routings", suite.evaluation.routings),
        ("evaluation.strengths", suite.evaluation.strengths),
        ("sft.strengths", suite.sft.strengths),
        ("ecology.memory.answering", suite.ecology.memory.answering),
    ):
        if (twice := repeated(values)) is not None:
            raise ValueError(f"{key}: {twice!r} stands twice; keep one")
    if reported := set(suite.tuning.seeds) & set(suite.seeds):
        raise ValueError(f"tuning.seeds: {min(reported)} is also a reported seed; choose another")


def check_names(suite: SuiteSettings) -> None:
    """Every condition is known, and every arm has a name of its own and is a condition."""
    known = list(dict.fromkeys([*KINDS, *suite.arms]))
    for condition in suite.conditions:
        if condition not in known:
            raise ValueError(f"conditions: {condition!r} is none of {', '.join(known)}; define it in `arms`")
    # A kind may have settings of its own under its own name, but for the one whose section says what it spends.
    own = {name for name, arm in suite.arms.items() if name == arm.like != suite.budget_of}
    if taken := (set(suite.arms) & {*KINDS, SHARED, WHOLE, TUNING}) - own:
        raise ValueError(f"arms: {min(taken)!r} is taken; choose another name")
    if idle := [name for name in suite.arms if name not in suite.conditions]:
        raise ValueError(f"arms.{idle[0]}: not among the conditions; add it there or take it out here")


def check_trials(suite: SuiteSettings, name: str) -> None:
    """All arms are tuned by equally many trials, and all trials of an arm ask at one temperature, since the bare host's
    accuracy is measured once for the arm.
    """
    count = len(suite.tuned_settings(name).trials)
    if count != suite.trials:
        raise ValueError(f"{name}: {count} trials, but {suite.budget_of} has {suite.trials}; all arms are tuned alike")
    own = suite.settings(name)
    for trial in range(count):
        asked = [
            one.practice_temperature for one in (own, suite.settings(name, trial)) if isinstance(one, EcologyConfig)
        ]
        if len(set(asked)) > 1:
            raise ValueError(
                f"{name}: trials.{trial} asks at another temperature than the arm (its temperature or "
                "plasticity.rule); make that a condition of its own in `arms`"
            )


def check_verifier(suite: SuiteSettings) -> None:
    """Where the verifier errs, no condition hears a true one."""
    deaf = [condition for condition in suite.conditions if not suite.kind(condition).verifier_may_err]
    errors = [suite.ecology.verifier_error, *(trial.get("verifier_error", 0) for trial in suite.ecology.trials)]
    if any(errors) and deaf:
        raise ValueError(
            f"ecology.verifier_error: {deaf[0]!r} always hears a true verifier; remove {deaf[0]!r}, or let only "
            "conditions like ecology err (arms.NAME.changes)"
        )


def check_budget(suite: SuiteSettings) -> None:
    """The condition whose compute is the budget must be there, and end of itself."""
    if not suite.trained and suite.budget_of == "ecology":
        return
    if suite.budget_of not in suite.conditions:
        raise ValueError(
            f"conditions: the others spend what {suite.budget_of!r} spends, as no budget is given in FLOPs; add it"
        )
    if not suite.kind(suite.budget_of).leads:
        leaders = ", ".join(name for name, kind in KINDS.items() if kind.leads)
        raise ValueError(
            f"budget_of: {suite.budget_of!r} runs until a budget is spent, so it sets none for others; name a "
            f"condition like {leaders}"
        )
    if suite.budget(suite.budget_of) != 1:
        raise ValueError(f"arms.{suite.budget_of}.budget: all budgets are shares of its compute; leave it out")


def check_arrivals(suite: SuiteSettings) -> None:
    """Who cannot follow families that come one after another (what is remembered is forgotten when the next one
    arrives), and what has no effect where they do not."""
    arms = [(name, settings) for name in suite.trained for settings in suite.with_trials(name)]
    if not suite.data.arrivals:
        for name, settings in arms:
            inherits = isinstance(settings, EcologyConfig) and settings.inheritance.donor != "host"
            lent = isinstance(settings, SftConfig) and settings.donor_items > 0
            if inherits or lent:
                key = "inheritance.donor" if inherits else "donor_items"
                raise ValueError(
                    f"{name}: {key}: has no effect where all families are there at once; set data.arrivals, or "
                    "remove this key"
                )
        return
    if suite.lead.generations < len(suite.data.train_families):
        raise ValueError("ecology.generations: with data.arrivals, at least one for each training family")
    for name, settings in arms:
        tried = isinstance(settings, SftConfig) and (settings.contenders > 1 or settings.shots > 0)
        told = isinstance(settings, EcologyConfig) and settings.looks_back
        met = isinstance(settings, EcologyConfig) and settings.contest.contenders > 1  # one is left after the first
        if not suite.kind(name).follows_arrivals or tried or told or met:
            raise ValueError(f"conditions: {name!r} cannot follow data.arrivals; take one of them out")
        if isinstance(settings, EcologyConfig) and suite.kind(name).peopled and settings.assimilation.attempts:
            raise ValueError(
                f"{name}: assimilation.attempts: with data.arrivals one niche learns at a time, and there is no "
                "pair to merge; take it out"
            )


def check_peopled(suite: SuiteSettings, name: str) -> None:
    """A population needs a founder for each training family, or a family would never be practised; where they
    contend, as many in each as contend.
    """
    if not suite.kind(name).peopled:
        return
    families = len(suite.data.train_families)
    for settings in suite.with_trials(name):
        if not isinstance(settings, EcologyConfig):
            continue
        if settings.population < families:
            raise ValueError(f"{name}: population {settings.population}: at least one for each training family")
        rivals = settings.contest.contenders
        if rivals > 1 and settings.population < rivals * families:
            raise ValueError(
                f"{name}: contest.contenders {rivals}: a population of {settings.population} has fewer in each of "
                f"{families} training families; raise population to {rivals * families}, or have fewer contenders"
            )


def check_remembered(suite: SuiteSettings, name: str) -> None:
    """Labels that a founder begins with have to fit its memory, or some would be forgotten at once."""
    families = len(suite.data.train_families)
    for own in suite.with_trials(name):
        if isinstance(own, EcologyConfig) and own.memory.labels:
            given = min(own.memory.labels, -(-suite.data.train_items // families))
            if given > own.plasticity.buffer:
                kept = f"a founder begins with {given} answers of a family and remembers {own.plasticity.buffer}"
                raise ValueError(f"{name}: memory.labels: {kept}; raise plasticity.buffer, or give fewer labels")


def check_heard(suite: SuiteSettings, name: str) -> None:
    """Refuse settings without effect: what every trial replaces, and the generations of an arm with a budget."""
    own = name in suite.arms
    section = suite.tuned_settings(name)
    place = f"arms.{name}.changes" if own else suite.kind(name).section
    given = suite.arms[name].changes if own else getattr(suite, place).model_dump(exclude_defaults=True)
    if any("generations" in trial for trial in section.trials):
        raise ValueError(f"{place}.trials: generations: no trial changes how long a run is; take it out")
    replaced = set.intersection(*({*leaves(trial)} for trial in section.trials)) if section.trials else set()
    if dead := sorted(replaced.intersection(leaves(given))):
        raise ValueError(f"{place}.{dead[0]}: every trial replaces it; change the trials, or take it out")
    read: list[dict[str, Any]] = []
    for number in range(len(section.trials)):
        tried = suite.settings(name, number)
        rule = tried.plasticity.rule if isinstance(tried, EcologyConfig) else getattr(tried, "update", "")
        idle = {"trials": ""} | unread(tried) | unread_by(suite.kind(name), tried)
        read.append({key: value for key, value in leaves(tried.model_dump()).items() if key not in idle})
        if read[number] in read[:number]:
            raise ValueError(
                f"{place}.trials: {read.index(read[number])} and {number} are the same run: "
                f"{name!r}{f' by {rule!r}' if rule else ''} reads no setting in which they differ; change one, or "
                "take one out"
            )
    if own and name != suite.budget_of and "generations" in given:
        raise ValueError(f"{place}.generations: {name} evolves until its budget is spent; set arms.{name}.budget")


def check_comparisons(suite: SuiteSettings) -> None:
    """Declared comparisons are of two conditions that run, on a split and by a router that are there, once each."""
    named = {c for pair in suite.evaluation.comparisons for c in (pair.a, pair.b)}
    if absent := sorted(named - set(suite.conditions)):
        raise ValueError(f"evaluation.comparisons: {', '.join(absent)} is not among the conditions")
    declared: set[tuple[str, ...]] = set()
    for pair in suite.evaluation.comparisons:
        if pair.a == pair.b:
            raise ValueError(f"evaluation.comparisons: {pair.a} with itself; compare two conditions")
        asked = (*sorted((pair.a, pair.b)), pair.split, pair.routing or suite.evaluation.routings[0])
        if asked in declared:
            raise ValueError(f"evaluation.comparisons: {pair.a} with {pair.b} on {pair.split} stands twice; keep one")
        declared.add(asked)
        a, b = suite.kind(pair.a), suite.kind(pair.b)
        if pair.regime and b.name not in a.mapped_against and a.name not in b.mapped_against:
            raise ValueError(
                f"evaluation.comparisons: the regime {pair.regime!r} compares {pair.a} with {pair.b}; the map asks "
                "where ecologies win, so one must be like ecology, the other like sft or single"
            )
    routed = {pair.routing for pair in suite.evaluation.comparisons} - {None, *suite.evaluation.routings}
    if routed:
        raise ValueError(f"evaluation.comparisons: {', '.join(map(str, routed))} is not among the routings")
