"""smolagents' agent that writes code, with the text handed over as its documentation has it, or put in by hand.

`additional_args` gives the agent a variable, and prints all of it into the prompt, too; with `by_hand`, the text is put
where that variable lives, and the prompt names it alone.
"""

from __future__ import annotations

import sys

from smolagents import ActionStep, CodeAgent, OpenAIServerModel  # type: ignore[import-not-found]

from tests.benchmarks.local_drivers.job import Job

MODULES = ["json", "csv", "io"]
"""Beyond what its cells may import by default, which has re, collections and datetime."""


def main() -> None:
    """Make the run."""
    job = Job.given()
    model = OpenAIServerModel(model_id=job.model, api_base=job.base_url, api_key="none")
    agent = CodeAgent(tools=[], model=model, max_steps=job.max_iterations, additional_authorized_imports=MODULES)
    answer = None
    try:
        if "by_hand" in sys.argv:
            agent.state["context"] = context = job.text
            prompt = f"{job.prompt}\nThe text is in the variable `context`, a str of {len(context):,} characters."
            answer = agent.run(prompt)
        else:
            answer = agent.run(job.prompt, additional_args={"context": job.text})
    finally:
        steps = [step for step in agent.memory.steps if isinstance(step, ActionStep)]
        job.tell(answer, [str(step.model_output or "") for step in steps])


if __name__ == "__main__":
    main()
