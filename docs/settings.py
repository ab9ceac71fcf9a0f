"""A page of every key of a suite file: what it takes, its default, what it does.

python docs/settings.py > docs/settings.md
"""

from evolora_core.engine.described import Key, describe
from evolora_core.searches.registry import get_search

SEARCHES = {
    "adapters": "Suites of adapters",
    "merging": "Suites of merges (`search: merging`)",
    "attention": "Suites of attention programs (`search: attention`)",
}
HEAD = """# Every key of a suite file

`evolora settings ecology.contest` shows a key or a section on the terminal. Keys are dotted, as `--set` takes them.
`NAME` stands for a name of your own, `[]` for each item of a list, `null` for none. Bounds are inclusive but for
*above* and *below*. This page is made by `python docs/settings.py > docs/settings.md`.
"""


def page() -> str:
    """The page, in Markdown."""
    return HEAD + "".join(_search(title, describe(get_search(name).experiment)) for name, title in SEARCHES.items())


def _search(title: str, keys: list[Key]) -> str:
    """A heading, and a table for the keys of each section; those outside of sections come first."""
    sections = [own for own in keys if not own.values and "." not in own.key]
    tops = [own for own in keys if own.values and "." not in own.key]
    text = f"\n## {title}\n\n{_table(tops)}"
    for section in sections:
        below = [own for own in keys if own.key.startswith((f"{section.key}.", f"{section.key}["))]
        must = " Required." if section.default else ""
        text += f"\n### `{section.key}`\n\n{_sentence(section.description)}{must}\n\n{_table(below)}"
    return text


def _table(keys: list[Key]) -> str:
    head = "| key | takes | default | what it does |\n| --- | --- | --- | --- |\n"
    return head + "".join(map(_row, keys))


def _row(own: Key) -> str:
    default = own.default if own.default == "required" else f"`{own.default}`" if own.default else ""
    return f"| `{own.key}` | {_cell(own.values)} | {default} | {_cell(own.description)} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."


if __name__ == "__main__":
    print(page(), end="")
