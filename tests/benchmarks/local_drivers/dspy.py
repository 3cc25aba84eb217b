"""dspy.RLM, as its documentation has it, in the interpreter that it brings for a subprocess of one's own.

Its default sandbox loads modules from deno.land each time that it is set up anew, so it runs only where that host can be
reached: `sandbox` asks for it.
"""

from __future__ import annotations

import sys

import dspy  # type: ignore[import-not-found]

from tests.benchmarks.local_drivers.job import Job

_REPLY_TOKENS = 1024
"""As the throw-away loop has it: a small model that writes on and on is cut off."""


def main() -> None:
    """Make the run."""
    job = Job.given()
    served = {"api_base": job.base_url, "api_key": "none", "max_tokens": _REPLY_TOKENS}
    model = dspy.LM(f"openai/{job.model}", cache=False, num_retries=0, **served)
    factory = dspy.PythonInterpreter if "sandbox" in sys.argv else dspy.primitives.LocalInterpreter
    rlm = dspy.RLM("context, query -> answer", max_iters=job.max_iterations, interpreter_factory=factory)
    with dspy.context(lm=model):
        result = rlm(context=job.text, query=job.prompt)
    job.tell(result.answer, [f"{step['reasoning']}\n{step['code']}" for step in result.trajectory])


if __name__ == "__main__":
    main()
