"""`ExtractiveModel`: the embedded default. No language model: it picks passages, and says so.

As a root it writes three short cells, which call `passages`: one looks at `context`, one ranks its passages with
BM25 and asks sub-calls about the best, one chooses among the sentences. As a sub-model it picks the sentences of a
passage that match a question. The same input always gives the same output.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from rlm_jupyter.models.abilities import Abilities
from rlm_jupyter.types.errors import NoAnswerError
from rlm_jupyter.types.tokens import estimate_tokens
from rlm_jupyter.types.values import Message, Reply, Usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

METHOD = "bm25"
_WINDOW = 50_000_000
"""It holds no text in mind: the bound only keeps a sub-call's sorting within seconds."""
_NO_SENTENCE = "No sentence here matches the question."
_NO_TEXT = (
    "I am no language model: I pick sentences out of a text. Put the question first, then an empty line, then the text."
)
_PICKED = 2
_GOOD_ENOUGH = 0.5
"""Of the best sentence's score: what a further sentence must reach."""
_PROMPT = re.compile(r"<prompt>\n(.*)\n</prompt>", re.DOTALL)
_CELLS = (
    (
        "I look at what the context is.",
        """\
from rlm_jupyter.models.passages import describe, matching_sentences, rank

print(describe(context))""",
    ),
    (
        "I rank its passages by the words of the question, and have the best ones read.",
        """\
ranking = rank(context, {question})
replies = llm_query_batched(ranking.prompts) if ranking.passages else []
for passage, reply in zip(ranking.passages, replies):
    print(f"{{passage.place}}: {{reply}}\\n")""",
    ),
    (
        "I put the best sentences together.",
        """\
sentences = matching_sentences(ranking, replies)
if sentences:
    FINAL(str(sentences))
else:
    print(sentences.problem)""",
    ),
)
_LOST = "A cell of the extractive model did not run to its end; its output says why."
_NAME_ANOTHER = "The extractive model only matches words, and sees no image: try other words, or a language model."


class ExtractiveModel:
    """A picker of passages behind the protocol of a model.

    Parameters
    ----------
    window
        Tokens, input and output; by default more than it is ever sent.
    """

    name = f"extractive/{METHOD}"
    abilities = Abilities(is_deterministic=True, answers_in_text=True)

    def __init__(self, *, window: int = _WINDOW) -> None:
        self.window = window

    def __repr__(self) -> str:
        return f"<ExtractiveModel {self.name}>"

    def cost(self, usage: Usage) -> float | None:
        """Return nothing: it costs nothing."""
        return 0.0

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[None]:
        """Hold nothing: there is nothing to hold."""
        yield

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_output_tokens: int,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        """Write the next cell of a conversation, or, to a lone user message, the best sentences in it."""
        if messages and messages[0].role == "system":
            text = write_cell(messages)
        else:
            # Reading takes a moment: others share the event loop.
            text = await asyncio.to_thread(pick_sentences, messages[-1].content if messages else "")
        if on_text is not None:
            for line in text.splitlines(keepends=True):
                on_text(line)
        read = sum(estimate_tokens(message.content) for message in messages)
        return Reply(text, self.name, Usage(read, estimate_tokens(text)))


def write_cell(messages: Sequence[Message]) -> str:
    """Return the reply to a conversation: prose and the cell that is due.

    The question stands between `<prompt>` and `</prompt>` in the first user message.

    Raises
    ------
    NoAnswerError
        All three cells were written, and there is no answer; says why.
    """
    iteration = sum(message.role == "assistant" for message in messages)
    if iteration >= len(_CELLS):
        raise NoAnswerError(_why_nothing(messages[-1].content))
    opening = next((message.content for message in messages if message.role == "user"), "")
    found = _PROMPT.search(opening)
    question = found.group(1) if found else opening
    prose, cell = _CELLS[iteration]
    literal = repr(question).replace("```", r"\x60" * 3)  # no fence may stand in the cell
    return f"{prose}\n\n```repl\n{cell.format(question=literal)}\n```"


def _why_nothing(outputs: str) -> str:
    """Say why the cells gave no answer, by the outputs of the last one."""
    from rlm_jupyter.models.passages.sentences import NO_CONTEXT, NO_MATCH

    for problem in (NO_CONTEXT, NO_MATCH):
        if (said := re.search(rf"^{re.escape(problem)}.*$", outputs, re.MULTILINE)) is not None:
            return f"{said[0]} {_NAME_ANOTHER}"
    return _LOST


def pick_sentences(prompt: str) -> str:
    """Return the sentences that match a question best.

    Parameters
    ----------
    prompt
        The question, an empty line, the text.

    Returns
    -------
    str
        At most two sentences, as they stand in the text but for line ends, one a line, in the text's order;
        or one line that says there is none.
    """
    question, _, text = prompt.strip().partition("\n\n")
    if not text.strip():
        return _NO_TEXT
    from rlm_jupyter.models.passages import terms, units  # loaded late: they bring NumPy with them

    wanted = terms.question_terms(question)
    sentences = list(dict.fromkeys(units.units(text)))
    counts = Counter(term for sentence in sentences for term in set(terms.terms(sentence)).intersection(wanted))
    weights = terms.weigh(wanted, counts, len(sentences))
    scores = [terms.score(sentence, weights) for sentence in sentences]
    best = max(scores, default=0.0)
    if best <= 0:
        return _NO_SENTENCE
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    picked = sorted(i for i in order[:_PICKED] if scores[i] >= best * _GOOD_ENOUGH)
    return "\n".join(sentences[i] for i in picked)
