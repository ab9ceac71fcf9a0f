"""The forms in which a prompt may be asked.

Every form has the prompt in it, letter for letter, and asks for nothing else; so the right answer is that of the item,
and the item is what is graded. Where words behind a prompt would belong to its question, or may belong to it, as in a
user's rows, the item is left out.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import get

PLAIN = "plain"
SPLIT = "holdout_id"

# No digit, quotation mark, truth value or letter standing alone, which a family may ask about.
_ASIDE = "The harbour was quiet; most boats had already left."

FORMS: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {
        PLAIN: lambda prompt: prompt,
        "blank lines before": lambda prompt: f"\n\n{prompt}",
        "blank lines after": lambda prompt: f"{prompt}\n\n",
        "headings": lambda prompt: f"Task:\n{prompt}\n\nAnswer:",
        "dialogue": lambda prompt: f"User: {prompt}\nAssistant:",
        "aside": lambda prompt: f"{_ASIDE}\n\n{prompt}",
    }
)
WORDS_AFTER = ("headings", "dialogue")  # these put words behind the prompt


def fits(form: str, item: Item) -> bool:
    """Whether the item asks the same in this form."""
    family = get(item.family)
    return form not in WORDS_AFTER or not (family.to_the_end or family.rows)
