"""How the rows of a task are cut into the splits of a seed.

Where a data set comes in one piece, its prompts are ordered by their hash and cut once: the first ones are held out,
the others are trained on, in the proportion of what the suite asks for. The cut is the same for every seed, so that no
prompt of a family that one seed trains on is held out by another. Selection and holdouts are drawn from the held-out
side by seed. Seeds on which settings are tuned hold out the last ones: settings are chosen by rows of which no reported
holdout has any, as long as no more than half are held out.
"""

from hashlib import blake2b

from evolora_core.engine.rng import stream
from evolora_core.errors import DataError
from evolora_core.language.families.base import Item
from evolora_core.language.families.canonical import canonical
from evolora_core.language.tasks.pools import Pool

PART_OF = {"train": "train"} | dict.fromkeys(("search", "selection", "reselection"), "selection")  # all others: holdout


def side(pool: Pool, split: str, depth: str, train: int, held_out: int, tuning: bool = False) -> list[Item]:
    """The items of a depth that a split may take, in a fixed order.

    train, held_out  how many items of this depth the training split, and all other splits together, ask for
    tuning           whether settings are tuned on the seed
    """
    part = PART_OF.get(split, "holdout")
    if "" not in pool.parts:
        return [item for item in pool.parts.get(part, ()) if item.depth == depth]
    items = sorted((item for item in pool.parts[""] if item.depth == depth), key=_order, reverse=tuning)
    cut = -(-len(items) * held_out // (train + held_out)) if held_out else 0
    return items[cut:] if split == "train" else items[:cut]


def take(
    pool: Pool,
    split: str,
    family: str,
    depth: str,
    wanted: int,
    seed: int,
    seen: set[str],
    train: int,
    held_out: int,
    key: str,
    *,
    tuning: bool = False,
) -> list[Item]:
    """`wanted` items of a depth for a split of a seed, none of them in `seen`, to which they are added. Other arguments
    are as in `side`.

    DataError says how many are missing, and names the key of a suite that says how many are wanted.
    """
    part = PART_OF.get(split, "holdout")
    if "" not in pool.parts and part not in pool.parts:
        raise DataError(
            f"tasks.{family}.splits: names nothing for `{part}`, of which {split} is made; add it, or leave `splits` "
            "out, and all rows are cut by prompt"
        )
    there = [item for item in side(pool, split, depth, train, held_out, tuning) if canonical(item.prompt) not in seen]
    if len(there) < wanted:
        missing = wanted - len(there)
        raise DataError(
            f"{split}: task {family}{f', depth {depth}' if len(pool.depths) > 1 else ''} has {len(there)} of {wanted} "
            f"items; {missing} {'is' if missing == 1 else 'are'} missing: bring more rows, or lower {key}"
        )
    chosen = stream(seed, 0, 0, f"dataset.{split}", family, depth).permutation(len(there))[:wanted]
    found = [there[place] for place in chosen]
    seen.update(canonical(item.prompt) for item in found)
    return found


def _order(item: Item) -> bytes:
    return blake2b(canonical(item.prompt).encode(), digest_size=16, person=b"cut").digest()
