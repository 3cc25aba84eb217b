"""This project, as it comes, or without some of its aids (`without`, among the options)."""

from __future__ import annotations

from rlm_jupyter import RLM, Limits
from tests.benchmarks.local_drivers.aids import came_up, leave_out
from tests.benchmarks.local_drivers.job import Job


def main() -> None:
    """Make the run."""
    job = Job.given()
    leave_out(job.options.pop("without", ()))
    limits = Limits(max_iterations=job.max_iterations)
    rlm = RLM(f"{job.provider}/{job.model}", base_url=job.base_url, limits=limits, save=job.folder, **job.options)
    result = rlm.completion(job.prompt, job.context)
    replies = [iteration.reply.text for iteration in result.trajectory.iterations]
    more = {"confidence": result.confidence, "aids": came_up(result.trajectory)}
    job.tell(result.answer, replies, stop_reason=result.stop_reason, message=result.message, **more)


if __name__ == "__main__":
    main()
