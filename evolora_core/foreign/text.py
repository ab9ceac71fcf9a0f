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


def error_line(error: Exception, limit: int = 160) -> str:
    """What kind of error it is and what it says, on one line."""
    return f"{type(error).__name__}: {one_line(error, limit)}"


def one_value(value: object, limit: int = 60) -> str:
    """A value that somebody wrote, as Python would, on one line; by its type alone where that cannot be done."""
    try:
        return one_line(repr(value), limit)
    except (ValueError, RecursionError):  # an integer of thousands of digits
        return f"a very long {type(value).__name__}"


def _written(character: str) -> str:
    return repr(character)[1:-1]
