"""A host as an attack meets it: a process with a key in its environment that runs cells in a kernel.

`python -m tests.security.host KIND` reads sources as JSON, a line each, and writes what they printed.
"""

from __future__ import annotations

import asyncio
import json
import sys

from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
from rlm_jupyter.kernel.templates import Templates, are_possible
from rlm_jupyter.types.values import Subcall, SubcallFailure

MEMORY = 1024**3
DISK = 8 * 1024**2
PROCESSES = 64


async def answer(call: Subcall) -> list[str | SubcallFailure]:
    return [f"echo {prompt}" for prompt in call.prompts]


async def main(kind: str) -> None:
    sandbox = Sandbox.of({"kind": kind, "memory": MEMORY, "disk": DISK, "processes": PROCESSES})
    templates = Templates()  # of one run, so that one template forks both
    other = await Kernel.start(answer, sandbox=sandbox, templates=templates)  # whose key is another's
    kernel = await Kernel.start(answer, sandbox=sandbox, templates=templates)
    is_forked = are_possible() and not sandbox.is_container
    assert other.is_forked == kernel.is_forked == is_forked, templates.problem
    try:
        print(json.dumps("ready"), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            run = await kernel.execute(json.loads(line), cell_seconds=60)
            said = "".join(o.get("text") or o.get("evalue") or "" for o in run.outputs)
            print(json.dumps(f"{said}\n[{run.status}]"), flush=True)
    finally:
        await kernel.close()
        await other.close()
        await templates.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
