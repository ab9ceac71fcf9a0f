"""Text of others on the console: what a terminal would obey is shown instead."""

LONGEST_LINE = 2000  # characters of an error


def printable(text: str) -> str:
    r"""The text with every character that is not printable (escapes, line breaks, direction marks, halves of
    characters) written as `\x1b`, `\n`, `\u202e`; one line that no terminal takes for a command."""
    return text if text.isprintable() else "".join([c if c.isprintable() else _written(c) for c in text])


def printable_lines(text: str) -> str:
    """The same, but line breaks and tabs stay."""
    return "".join([c if c in "\n\t" or c.isprintable() else _written(c) for c in text])


def one_line(text: object, limit: int = LONGEST_LINE) -> str:
    """A message as one printable line of at most `limit` characters, white space pressed together."""
    words = " ".join(str(text)[: 8 * limit].split())
    line = printable(words)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _written(character: str) -> str:
    return repr(character)[1:-1]
