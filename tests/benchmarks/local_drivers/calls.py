"""One call, without a loop: `plain` (the whole text), `truncated` (its beginning), or `bm25` (what is like the prompt).

`plain` says nothing where the text does not fit. The others are given less of one that has more tokens than it looks.
"""

from __future__ import annotations

import sys

from openai import BadRequestError, OpenAI

from tests.benchmarks.local_drivers.job import Job

_CHARS = 36_000
"""Of a text that a window of 16,000 tokens holds, figures and all."""
_PASSAGE = 1_200
_PASSAGES = 20
_SHARES = (1.0, 0.6, 0.4, 0.25)
"""Of that much text, one after the other, as long as the server says that it is too long."""
_SYSTEM = "Answer the question about the text. Reply with the answer alone, as short as it can be."


def _passages(text: str, prompt: str, most: int) -> str:
    import bm25s

    step = _PASSAGE
    pieces = [text[place : place + step] for place in range(0, len(text), step)]
    index = bm25s.BM25()
    index.index(bm25s.tokenize(pieces, show_progress=False), show_progress=False)
    asked = bm25s.tokenize([prompt], show_progress=False)
    found, _ = index.retrieve(asked, k=min(most, len(pieces)), show_progress=False)
    return "\n[…]\n".join(pieces[place] for place in sorted(map(int, found[0])))


def main() -> None:
    """Make the run."""
    job, way = Job.given(), sys.argv[1]
    text = job.text
    if len(text) <= _CHARS:
        _tell(job, text)
    elif way == "plain":
        job.tell(None, [], stop_reason="too long")
    else:
        _tell_in_part(job, text, way)


def _tell_in_part(job: Job, text: str, way: str) -> None:
    for share in _SHARES:
        chars, passages = int(_CHARS * share), int(_PASSAGES * share)
        try:
            _tell(job, _passages(text, job.prompt, passages) if way == "bm25" else text[:chars])
            break
        except BadRequestError:
            if share == _SHARES[-1]:
                raise


def _tell(job: Job, text: str) -> None:
    """Ask once, and tell what came of it."""
    client = OpenAI(base_url=job.base_url, api_key="none", max_retries=0)
    messages = [
        {"role": "system", "content": _SYSTEM},
        {"role": "user", "content": f"<text>\n{text}\n</text>\n\n{job.prompt}"},
    ]
    reply = client.chat.completions.create(model=job.model, messages=messages, max_tokens=300)  # type: ignore[arg-type]
    said = reply.choices[0].message.content or ""
    job.tell(said.strip() or None, [said])


if __name__ == "__main__":
    main()
