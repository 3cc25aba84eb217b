"""`slug`: the first words of a prompt, as a part of a file's name."""

from __future__ import annotations

import re
import unicodedata

_MOST_CHARS = 40


def slug(prompt: str) -> str:
    """Return the first words of a prompt as a part of a file's name, in any script."""
    words = re.findall(r"\w+", unicodedata.normalize("NFC", prompt[: 10 * _MOST_CHARS]).lower())
    name = ""
    for word in words:
        longer = f"{name}-{word}" if name else word[:_MOST_CHARS]
        if len(longer) > _MOST_CHARS:
            break
        name = longer
    return name or "run"
