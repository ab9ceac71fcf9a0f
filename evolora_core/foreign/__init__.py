"""What comes from elsewhere and may be hostile: files, documents, regular expressions, text for the console, and work
that may never end. Every border of the program reads through these few modules; their complaints are ValueErrors, which
each border turns into the one line of its own kind of error.
"""

from evolora_core.foreign.documents import read_json, read_yaml
from evolora_core.foreign.files import Unfit, read_bytes, read_text
from evolora_core.foreign.text import one_line, printable

__all__ = ["Unfit", "one_line", "printable", "read_bytes", "read_json", "read_text", "read_yaml"]
