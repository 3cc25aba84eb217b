"""What the tests of policies ask about, and with."""

from typing import Any

from rlm_jupyter.policies import ActionResult, PolicyContext, PolicyRegistry, TerminationPolicy

START = PolicyContext()
FINAL = ActionResult("final", success=True, output="42")
EMPTY_FINAL = ActionResult("final", success=True)
Verdict = tuple[bool, str | None]


def policy(name: str, **config: Any) -> TerminationPolicy:
    return PolicyRegistry.get_termination(name, config)


def code(output: str = "", **metadata: Any) -> ActionResult:
    return ActionResult("code", success=True, output=output, metadata=metadata)


def final(output: str = "42", **metadata: Any) -> ActionResult:
    return ActionResult("final", success=True, output=output, metadata=metadata)


def rewarded(reward: Any) -> PolicyContext:
    return PolicyContext(metrics={"last_reward": reward})


def at(step: int) -> PolicyContext:
    return PolicyContext(step=step)


class Always(TerminationPolicy):
    """Says what it is made with, and counts how often it was asked and reset."""

    name = "always"

    def __init__(self, *verdicts: Verdict) -> None:
        super().__init__()
        self.verdicts = verdicts
        self.asked = 0
        self.resets = 0

    def should_terminate(self, result: ActionResult, context: PolicyContext) -> Verdict:
        self.asked += 1
        return self.verdicts[(self.asked - 1) % len(self.verdicts)]

    def reset(self) -> None:
        self.resets += 1


class Judge(Always):
    """One whose verdict on a declared answer counts."""

    judges_final = True
