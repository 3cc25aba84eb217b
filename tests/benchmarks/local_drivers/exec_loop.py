"""The floor that a harness must beat: a throw-away loop around `exec`, in this process and without any care."""

from __future__ import annotations

import contextlib
import io
import re
import traceback
from typing import Any

from openai import OpenAI

from tests.benchmarks.local_drivers.job import Job

_SHOWN = 4_000
_SYSTEM = """\
You answer a question about data that is too long to read. It is the Python variable `context`. Write one sentence \
about what you will do, then one ```python block. The block is executed and you are shown what it printed; never write \
an output yourself. Look at the beginning of `context` before you search it, and search loosely before you search \
exactly. `llm_query(prompt)` asks a language model about a short text. When you know the answer, write a block that \
holds only FINAL(answer)."""
_BLOCK = re.compile(r"```(?:python|repl|py)?[ \t]*\n(.*?)```", re.DOTALL)


class _FinalError(Exception):
    """FINAL was called."""


def main() -> None:
    """Make the run."""
    job = Job.given()
    client = OpenAI(base_url=job.base_url, api_key="none", max_retries=0)

    def ask(messages: list[dict[str, str]]) -> str:
        reply = client.chat.completions.create(model=job.model, messages=messages, max_tokens=1024)  # type: ignore[arg-type]
        return reply.choices[0].message.content or ""

    def final(answer: object) -> None:
        found.append(answer)
        raise _FinalError

    found: list[object] = []
    replies: list[str] = []
    names: dict[str, Any] = {
        "context": (context := job.context),
        "FINAL": final,
        "llm_query": lambda prompt: ask([{"role": "user", "content": str(prompt)}]),
    }
    what = f"`context` is a {type(context).__name__} of length {len(context):,}."
    messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": f"{what}\n\n{job.prompt}"}]
    while len(replies) < job.max_iterations and not found:
        replies.append(ask(messages))
        messages.append({"role": "assistant", "content": replies[-1]})
        messages.append({"role": "user", "content": _shown(replies[-1], names)})
    job.tell(found[0] if found else None, replies)


def _shown(reply: str, names: dict[str, Any]) -> str:
    block = _BLOCK.search(reply)
    if block is None:
        return "There was no ```python block. Write one, or end with FINAL(answer) in one."
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(block[1], names)
    except _FinalError:
        return ""
    except BaseException:  # noqa: BLE001  whatever the model's code does
        out.write(traceback.format_exc(limit=-1))
    said = out.getvalue()
    if len(said) > _SHOWN:
        said = f"{said[: _SHOWN // 2]}\n[…]\n{said[-_SHOWN // 2 :]}"
    return f"Output:\n{said or '(nothing was printed)'}\nIf that answers the question, write FINAL(answer) in a block."


if __name__ == "__main__":
    main()
