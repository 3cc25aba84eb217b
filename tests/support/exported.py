"""One saved run with everything that an export has to carry, of a model that has a price."""

from __future__ import annotations

from pathlib import Path

from rlm_jupyter import RLM, Limits, Result
from tests.support.loopback import KEY, Loopback, Said, Scripted

SECRET = "sk-proj-" + "Qz7" * 14
QUESTION = "Who wrote it?"


def block(*lines: str) -> str:
    """A reply of prose and one cell."""
    return "\n".join(["I look.", "```repl", *lines, "```"])


def looked_up(word: str) -> str:
    """Look a word up."""
    if word == "nothing":
        raise LookupError(word)
    return word.upper()


FIRST = block(
    "print(context[:10])",
    "print(llm_query('Who is meant? ' + context))",
    "print(rlm_query('Count the letters.\\n' + context))",
    "print(looked_up('tea'))",
)
REPLIES: list[Scripted] = [
    Said("", input_tokens=900, output_tokens=1),  # is resampled
    Said(FIRST, input_tokens=2000, output_tokens=30, cached_tokens=500, reasoning_tokens=11),
    Said(f"Ada, by the key {SECRET}.", input_tokens=333, output_tokens=3),
    # of the child
    Said(block("print(llm_query('How many? ' + context))"), input_tokens=1000, output_tokens=9),
    Said("13", input_tokens=111, output_tokens=1),
    Said(block("FINAL(13)"), input_tokens=1200, output_tokens=11),
    # and of the root again
    Said(block("looked_up('nothing')"), input_tokens=3000, output_tokens=12, cached_tokens=2000),
    Said(block("FINAL('Ada')"), input_tokens=3100, output_tokens=14, cached_tokens=3000),
]


def make(path: Path, replies: list[Scripted] = REPLIES) -> Result:
    """Make the run, and save it there."""
    with Loopback(replies) as server:
        rlm = RLM(
            "openai/gpt-5.4-mini",
            base_url=server.openai_url,
            api_key=KEY,
            limits=Limits(max_depth=2),
            tools=[looked_up],
            save=path,
        )
        return rlm.completion(QUESTION, "A book by Ada")
