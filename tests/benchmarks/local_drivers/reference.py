"""The reference implementation, as its documentation has it: the text is the context, the question the root prompt."""

from __future__ import annotations

from rlm import RLM  # type: ignore[import-not-found]
from rlm.logger import RLMLogger  # type: ignore[import-not-found]

from tests.benchmarks.local_drivers.job import Job


def main() -> None:
    """Make the run."""
    job = Job.given()
    logger = RLMLogger(log_dir=job.folder)
    rlm = RLM(
        backend="openai",
        backend_kwargs={"model_name": job.model, "base_url": job.base_url, "api_key": "none"},
        environment="local",
        max_iterations=job.max_iterations,
        logger=logger,
    )
    answer = None
    try:
        answer = rlm.completion(job.text, root_prompt=job.prompt).response
    finally:
        kept = (logger.get_trajectory() or {}).get("iterations", [])
        job.tell(answer, [iteration["response"] for iteration in kept])


if __name__ == "__main__":
    main()
