"""Content hashes: what makes two requests, responses or tables the same.

Every fingerprint is SHA-256 over UTF-8 bytes in one canonical form, written as 64 hex characters.
"""

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

SHORT_LENGTH = 12
"""Hex characters of a fingerprint that people are shown."""
_CODE_SUFFIXES = frozenset({".py", ".yaml", ".html", ".css", ".js", ".md", ".txt"})


def canonical_json(value: Any) -> str:
    """Serialise a JSON value so that equal values give equal text.

    Keys are sorted, separators have no white space, and characters are not escaped.

    Raises:
        ValueError: If the value holds NaN or an infinity, which JSON has no word for.
    """
    return json.dumps(
        value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )


def fingerprint_bytes(content: bytes) -> str:
    """Return the SHA-256 of some bytes."""
    return hashlib.sha256(content).hexdigest()


def fingerprint_text(text: str) -> str:
    """Return the SHA-256 of a text's UTF-8 bytes.

    Lone surrogates, which a broken file can hold, are kept apart rather than refused.
    """
    return fingerprint_bytes(text.encode("utf-8", errors="surrogatepass"))


def fingerprint(value: Any) -> str:
    """Return the SHA-256 of a JSON value in its canonical form."""
    return fingerprint_text(canonical_json(value))


def combine(fingerprints: Iterable[str]) -> str:
    """Return one fingerprint for a sequence of them; their order counts."""
    return fingerprint(list(fingerprints))


def short(full: str) -> str:
    """Return the form of a fingerprint that people are shown."""
    return full[:SHORT_LENGTH]


@cache
def program_fingerprint() -> str:
    """Return the fingerprint of the package as it was when it was first asked for."""
    root = Path(str(resources.files("tournament_assets")))
    return fingerprint(
        [
            [path.relative_to(root).as_posix(), fingerprint_bytes(path.read_bytes())]
            for path in sorted(root.rglob("*"))
            if path.suffix in _CODE_SUFFIXES and path.is_file()
        ]
    )


def prompt_seed(name: str, seed: int | None = None) -> int:
    """Seed of a prompt's random numbers: SHA-256 of its name, modulo 2**32.

    Every entrant draws the same numbers for the same prompt, whatever else is in its batch.

    Args:
        name: The name of a prompt, or of a sample of it.
        seed: Changes the numbers; with None they depend on the name alone.
    """
    text = name if seed is None else f"{seed}\0{name}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big") % 2**32
