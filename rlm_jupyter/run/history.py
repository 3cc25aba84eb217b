"""`History`: the prompts that a kernel has answered, as its cells find them in `history`, `history_0` and so on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rlm_jupyter.record.messages import follow_up, read_part

if TYPE_CHECKING:
    from rlm_jupyter.kernel.kernel import Kernel
    from rlm_jupyter.record.trajectory import Trajectory


@dataclass
class History:
    """The prompts so far, in order; one whose run failed is not among them."""

    prompts: list[dict[str, str | None]] = field(default_factory=list)
    """Prompt and answer of each: `history` in the kernel."""
    conversations: list[list[dict[str, str]]] = field(default_factory=list)
    """What was said over each, as chat messages: `history_0`, `history_1`…"""

    def __len__(self) -> int:
        return len(self.prompts)

    def add(self, trajectory: Trajectory) -> None:
        """Add the prompt that this run has answered."""
        self.prompts.append({"prompt": trajectory.started.prompt, "answer": trajectory.answer})
        self.conversations.append(conversation(trajectory))

    def cut(self, count: int) -> None:
        """Keep the first `count` of them."""
        del self.prompts[count:], self.conversations[count:]

    @property
    def variables(self) -> dict[str, list[Any]]:
        """What there is in the kernel of it, by name; nothing, before the first prompt is answered."""
        if not self.prompts:
            return {}
        numbered = {f"history_{number}": said for number, said in enumerate(self.conversations)}
        return {"history": self.prompts, **numbered}

    async def put(self, kernel: Kernel) -> None:
        """Put all of it into the kernel, anew: its cells may have changed what was there.

        Raises
        ------
        KernelDiedError
            It had died.
        """
        if self.prompts:
            await kernel.provide(self.variables)


def conversation(trajectory: Trajectory) -> list[dict[str, str]]:
    """Return what was said in a run, as chat messages: its first message, the replies, and the outputs in between.

    Without the system message, which every prompt has, and with all outputs, also those that its model was no longer
    shown.
    """
    said = [_message("user", trajectory.started.opening)]
    for iteration in trajectory.iterations:
        said += [_message("assistant", read_part(iteration)), _message("user", follow_up(iteration, elided=False))]
    if trajectory.forced is not None:
        said.append(_message("assistant", trajectory.forced.text))
    elif len(said) > 1:
        said.pop()  # nobody replied to it
    return said


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}
