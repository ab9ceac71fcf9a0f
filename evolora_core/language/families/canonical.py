"""When two prompts are the same, and which prompts are kept for evaluation."""

import unicodedata
from hashlib import blake2b

RESERVED_SHARE = 0.1


def canonical(prompt: str) -> str:
    """The prompt with accents composed, case folded and every run of white space made one blank."""
    text = prompt if prompt.isascii() else unicodedata.normalize("NFC", prompt)
    return " ".join(text.casefold().split())


def reserved(prompt: str) -> bool:
    """True for the tenth of all canonical prompts, chosen by hash, that no pretraining and no train split may see."""
    digest = blake2b(canonical(prompt).encode(), digest_size=8, person=b"reserved").digest()
    return int.from_bytes(digest, "little") < RESERVED_SHARE * 2**64
