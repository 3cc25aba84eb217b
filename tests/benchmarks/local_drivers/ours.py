"""This project, as it comes."""

from __future__ import annotations

from rlm_jupyter import RLM, Limits
from tests.benchmarks.local_drivers.job import Job


def main() -> None:
    """Make the run."""
    job = Job.given()
    limits = Limits(max_iterations=job.max_iterations)
    rlm = RLM(f"{job.provider}/{job.model}", base_url=job.base_url, limits=limits, save=job.folder, **job.options)
    result = rlm.completion(job.prompt, job.context)
    replies = [iteration.reply.text for iteration in result.trajectory.iterations]
    job.tell(
        result.answer, replies, stop_reason=result.stop_reason, message=result.message, confidence=result.confidence
    )


if __name__ == "__main__":
    main()
