"""The third cell: the best sentences, where they stand, and how they were found."""

from __future__ import annotations

import math
import re
from collections import Counter

from rlm_jupyter.models.extractive_cells.kernel import FINAL, context
from rlm_jupyter.models.extractive_cells.rank import passages, question, read, replies, wanted
from rlm_jupyter.models.extractive_cells.words import score

# %%
shares = Counter(term for passage in read for term in set(passage).intersection(wanted))
weights = {term: math.log(1 + len(read) / count) for term, count in shares.items()}

places: dict[str, str] = {}
for (place, start, _, body), reply in zip(passages, replies, strict=True):
    for sentence in reply.splitlines() if reply else ():
        found = re.search(r"\s+".join(map(re.escape, sentence.split())), body)
        places.setdefault(sentence, f"{place}character {start + (found.start() if found else 0):,}")
best = sorted((s for s in places if score(s, weights) > 0), key=lambda s: -score(s, weights))[:5]

if context is None or (hasattr(context, "__len__") and len(context) == 0):
    lines = ["There is no context to look into."]
elif not best:
    lines = [f"Nothing in the context matches the words of the question: {question}"]
else:
    # as code: `__init__` is Markdown for something in bold
    shown = {s: re.sub(r"(?<![`\w])(__\w+__(?:\(\))?)(?![`\w])", r"`\1`", s) for s in best}
    lines = [f"{n}. {shown[sentence]} ({places[sentence]})" for n, sentence in enumerate(best, 1)]
FINAL("\n".join([*lines, "", "Picked by word matching (extractive/bm25): no language model read the text."]))
