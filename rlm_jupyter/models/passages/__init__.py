"""Passages of a text, ranked by the words of a question, and the sentences of them that match it.

The cells of the embedded default model call these three functions, in the kernel: `describe`, `rank` and
`matching_sentences`. They need NumPy and bm25s, and nothing else of this package.
"""

from rlm_jupyter.models.passages.describe import describe
from rlm_jupyter.models.passages.ranking import Passage, Ranking, rank
from rlm_jupyter.models.passages.sentences import Sentences, matching_sentences

__all__ = ["Passage", "Ranking", "Sentences", "describe", "matching_sentences", "rank"]
