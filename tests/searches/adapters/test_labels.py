"""What a supervised rival gets to see."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from evolora_core.language.families.base import Item
from evolora_core.searches.adapters.labels import labelled, parts
from evolora_core.searches.adapters.settings.sft import SftConfig

ITEMS = [
    Item(f"{family} {depth} {i}", f"{family} {depth} {i}", family, depth, f"{family}:{depth}:{i}")
    for family in ("math", "string.sort")
    for depth in ("short", "long")
    for i in range(50)
]


@given(labels=st.integers(1, 100), seed=st.integers(0, 50))
def test_every_family_has_so_many_labels_over_all_depths(labels: int, seed: int) -> None:
    chosen = labelled(ITEMS, SftConfig(labels=labels), seed)
    assert Counter(item.family for item in chosen) == {"math": labels, "string.sort": labels}
    per_depth = Counter((item.family, item.depth) for item in chosen)
    assert all(abs(count - labels / 2) <= 0.5 for count in per_depth.values() if labels > 1)
    more = labelled(ITEMS, SftConfig(labels=min(labels + 1, 100)), seed)
    assert {item.task_id for item in chosen} <= {item.task_id for item in more}


def test_all_are_seen_by_default_and_none_is_wrong() -> None:
    chosen = labelled(ITEMS, SftConfig(), 0)
    assert sorted(chosen, key=str) == sorted(ITEMS, key=str)


def test_a_wrong_label_is_the_answer_of_another_item_of_the_cell() -> None:
    chosen = labelled(ITEMS, SftConfig(label_error=0.3), 0)
    truth = {item.task_id: item.target for item in ITEMS}
    wrong = [item for item in chosen if item.target != truth[item.task_id]]
    assert 0.15 < len(wrong) / len(chosen) < 0.45
    assert all(item.target.startswith(f"{item.family} {item.depth} ") for item in wrong)
    assert Counter(item.task_id for item in chosen).most_common(1)[0][1] == 1


def test_so_many_labels_are_wrong_where_answers_are_few() -> None:
    """Half of the items of `logic.bool` have the same answer as the item beside them."""
    items = [Item(f"{i}", i % 3 == 0, "logic.bool", "short", f"logic.bool:short:{i}") for i in range(600)]
    chosen = labelled(items, SftConfig(label_error=0.2), 0)
    truth = {item.task_id: item.target for item in items}
    assert 0.15 < sum(item.target != truth[item.task_id] for item in chosen) / len(chosen) < 0.25
    alike = [replace(item, target=True) for item in items]
    assert sorted(labelled(alike, SftConfig(label_error=0.2), 0), key=str) == sorted(alike, key=str)


def test_specialists_get_their_family() -> None:
    assert list(parts(ITEMS, SftConfig())) == ["all"]
    cut = parts(ITEMS, SftConfig(specialists=True))
    assert {name: {item.family for item in own} for name, own in cut.items()} == {
        "math": {"math"},
        "string.sort": {"string.sort"},
    }


def test_families_that_arrive_are_trained_on_in_their_order() -> None:
    given = parts(ITEMS, SftConfig(), ["string.sort", "math"])
    assert list(given) == ["string.sort", "math"]
    assert all(item.family == family for family, items in given.items() for item in items)
    assert sum(map(len, given.values())) == len(ITEMS)
