"""The kinds of conditions of an adapter search: what a suite file may name, and what each kind is.

Who trains them is in `registry.py`. Nothing that is computed depends on this table.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of condition.

    section           key of the suite with its settings; "": it has none, and nothing is trained
    look              colour and marker in every plot; None: any that is free
    leads             whether it can be the condition whose compute is the budget of the others: it ends of itself
    peopled           whether it needs a founder for each family
    follows_arrivals  whether it can be trained where families come one after another
    sees_gold         whether it learns from right answers that items come with
    tuned             whether trials choose its settings; else the selection split alone does, within each run
    verifier_may_err  whether what it hears is the verifier that errs, or no verifier at all
    mapped_against    kinds with which the map compares it
    """

    name: str
    section: str
    look: tuple[str, str] | None = None
    leads: bool = False
    peopled: bool = False
    follows_arrivals: bool = False
    sees_gold: bool = False
    tuned: bool = True
    verifier_may_err: bool = True
    mapped_against: tuple[str, ...] = ()


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("frozen", "", ("#7f7f7f", "s"), follows_arrivals=True),
        Kind("single", "ecology", ("#E69F00", "^"), follows_arrivals=True),
        Kind(
            "ecology",
            "ecology",
            ("#0072B2", "o"),
            leads=True,
            peopled=True,
            follows_arrivals=True,
            mapped_against=("sft", "single"),
        ),
        Kind("sft", "sft", ("#D55E00", "D"), follows_arrivals=True, sees_gold=True),
        Kind("examples", "examples", ("#009E73", "v"), sees_gold=True, tuned=False),
        Kind("es", "es", verifier_may_err=False),
        Kind("grpo", "grpo", verifier_may_err=False),
        Kind("expert-iteration", "expert_iteration", verifier_may_err=False),
    )
}
