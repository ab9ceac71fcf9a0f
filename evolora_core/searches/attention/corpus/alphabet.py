"""The tokens that every kind of text shares: 97 characters, and 31 signs for the synthetic tasks."""

import numpy as np

CHARACTERS = "\n" + "".join(map(chr, range(0x20, 0x7F)))  # tokens 1 … 96; every other byte is token 0
KEYS = range(97, 111)
VALUES = range(111, 125)
BLANK, MARK = 125, 126
VOCAB = 128

_TOKEN_OF_BYTE = np.zeros(256, dtype=np.uint8)
_TOKEN_OF_BYTE[[ord(character) for character in CHARACTERS]] = np.arange(1, len(CHARACTERS) + 1)


def encode(text: str) -> np.ndarray:
    """uint8 `[bytes]`: one token for each byte of the text in UTF-8; tabs become spaces."""
    return _TOKEN_OF_BYTE[np.frombuffer(text.expandtabs(4).encode("utf-8", "replace"), dtype=np.uint8)]
