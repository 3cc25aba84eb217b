"""The second cell: the passages that match best, and what sub-calls pick out of them."""

# ruff: noqa: I001, T201, ANN001

from __future__ import annotations

import re

from rlm_jupyter.models.extractive_cells.kernel import context, llm_query_batched
from rlm_jupyter.models.extractive_cells.words import terms

# %%
import heapq
import math
from collections import Counter

import bm25s

question = ""


def items(source) -> list[tuple[str, str]]:  # type: ignore[no-untyped-def]
    """Every text in `source`, with the place where it stands."""
    if isinstance(source, bytes):
        source = source.decode("utf-8", "replace")
    if hasattr(source, "columns"):  # a data frame: its rows
        source = source.to_dicts() if hasattr(source, "to_dicts") else source.to_dict("records")
    if isinstance(source, str):
        return [("", source)]
    if isinstance(source, dict):
        return [(f"key {key!r}, ", str(value)) for key, value in source.items()]
    if not hasattr(source, "__iter__"):
        return [] if source is None else [("", str(source))]
    return [(f"item {i:,}, ", str(value)) for i, value in enumerate(source)]


def pieces(text: str, size: int = 2_000) -> list[tuple[int, int]]:
    """Where `text` can be cut into passages of about `size`: after a paragraph, line, sentence or word."""
    found, start = [], 0
    while start < len(text):
        end = start + size
        if end < len(text):
            ends = (text.rfind(mark, start + size // 2, end) for mark in ("\n\n", "\n", ". ", " "))
            end = next((cut + 1 for cut in ends if cut > 0), end)
        found.append((start, end))
        start = end
    return found


def heading(text: str, start: int) -> str:
    """The last heading before `start`: `# such a one`, or a line with ===== below."""
    before = text[max(start - 20_000, 0) : start]
    found = re.findall(r"^(#{1,6} .+|.{1,80}\n([=*~-])\2{2,})$", before, re.M)
    return found[-1][0] + "\n\n" if found else ""


# First sieve: passages with a word of the question; of too many, those with the rarest words.
wanted = list(dict.fromkeys(terms(question)))
words = [term for term in wanted if " " not in term]
sieved = []
for place, text in items(context):
    for start, end in pieces(text):
        lower = text[start:end].lower()
        if hits := [word for word in words if word in lower]:
            sieved.append((hits, place, text, start, end))
counts = Counter(word for hits, *_ in sieved for word in hits)
rarity = {word: math.log(1 + len(sieved) / counts[word]) for word in counts}
sieved = heapq.nlargest(2_000, sieved, key=lambda found: sum(rarity[word] for word in found[0]))

# Second sieve: BM25 ranks what is left.
passages = [(place, start, heading(text, start), text[start:end]) for _, place, text, start, end in sieved]
read = [terms(head + body) for _, _, head, body in passages]
if passages:
    index = bm25s.BM25()
    index.index(read, show_progress=False)
    ranked, scores = index.retrieve([wanted], k=min(6, len(passages)), show_progress=False)
    passages = [passages[i] for i, score in zip(ranked[0], scores[0], strict=True) if score > 0]

asked = " ".join(question.split())
replies = llm_query_batched([f"{asked}\n\n{head}{body}" for _, _, head, body in passages]) if passages else []
for (place, start, _, _), reply in zip(passages, replies, strict=True):
    print(f"{place}character {start:,}: {reply}\n")
