"""Every exception that this package raises.

Three fates are kept apart: what the model's code did wrong is *data*, shown to the model; a limit that
was reached is a `stop_reason` of the result; only a failure of the host is an exception, and its text
says what to do.

    RLMError
    ├── ConfigurationError (ValueError)   before anything was started or spent
    │   └── ContextError                  the context can't be handed to a kernel
    ├── ModelError                        a provider failed for good
    │   ├── ModelUnavailableError         no answer: refused, timed out, overloaded, cut off
    │   ├── ImagesRefusedError            its server takes no images
    │   ├── ContextWindowError            the prompt does not fit the model's window
    │   └── UnusableReplyError            it replied, with nothing that can be used
    │       └── NoAnswerError             it said by itself that it has no answer
    ├── KernelError                       the kernel can't be used
    │   ├── KernelStartError
    │   └── KernelDiedError
    ├── PolicyError                       a policy of the user's failed
    ├── LimitReached                      a limit of the run refuses a request (becomes a `stop_reason`)
    └── RecordError                       a saved run can't be read or written
        └── NoRunError                    there is none by that name (a ConfigurationError, too)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rlm_jupyter.types.sentence import sentence

if TYPE_CHECKING:
    from pathlib import Path

    from rlm_jupyter.types.values import StopReason


_SETTING = re.compile(r"\b(?:Limits|Sandbox)\((\w+)=([^)]*)\):")


def _as_option(setting: re.Match[str]) -> str:
    value = "" if setting[2] == "…" else f" {setting[2]}"
    return f"--{setting[1].replace('_', '-')}{value}:"


class RLMError(Exception):
    """The root of the tree.

    Parameters
    ----------
    args
        The text.
    notebook, command
        The text in a notebook's magics, and on the command line, where it advises something else there.
    """

    shows_frames = False
    """IPython shows all frames and causes: code of the user's has failed."""
    # the classes of both stand above this module
    result: Any = None
    """A `Result` of a run that had begun, else `None`: its best answer so far or none, usage, cost, record and path."""
    remarks: str = ""
    """What else was not as asked for in that run, as a file that it did not write; a part of the error's text."""
    advice: str = ""
    """Where that run is saved; the error's text ends with it."""
    resume: str = ""
    """… and with how to resume it."""
    trajectory: Any = None
    """A `Trajectory`, or `None`. The record of the run that this ended."""

    def __init__(self, *args: object, notebook: str = "", command: str = "") -> None:
        super().__init__(*args)
        self._notebook, self._command = notebook, command

    def __str__(self) -> str:
        return self._advising(super().__str__())

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows, which calls this: the text and the line of the user's cell, no frames of ours."""
        from rlm_jupyter.types.cell_traceback import rendered

        return rendered(self, whole=self.shows_frames)

    @property
    def for_notebook(self) -> str:
        """The text that a magic shows: with the options that it has for settings."""
        return self._advising(self._notebook or _SETTING.sub(_as_option, super().__str__()))

    @property
    def for_command_line(self) -> str:
        """The text that a command shows: with the options that it has for settings."""
        return self._advising(self._command or _SETTING.sub(_as_option, super().__str__()))

    def _advising(self, text: str) -> str:
        said = " ".join(filter(None, (self.remarks, self.advice, self.resume)))
        return f"{sentence(text)} {said}" if said else text


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C, or a notebook's Stop, has ended a run; the text says where that is saved, and how to resume it.

    Parameters
    ----------
    result
        A `Result`: what the run had by then.
    """

    def __init__(self, text: str, result: Any) -> None:
        super().__init__(text)
        self.result = result

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows, as of an `RLMError`."""
        from rlm_jupyter.types.cell_traceback import rendered

        return rendered(self)


def saved_at(error: BaseException) -> Path | None:
    """Return the notebook of the run that an error ended, if that run is saved."""
    return error.result.path if isinstance(error, RLMError) and error.result is not None else None


class ConfigurationError(RLMError, ValueError):
    """A setting is missing or wrong; raised before anything is started or spent."""


class ContextError(ConfigurationError):
    """The context can't be handed to a kernel; the text names its type and what to pass instead."""


class ModelError(RLMError):
    """A model's provider failed for good."""

    refuses_key = False
    """It wants a key, or another one than it was given: no request is answered before."""


class ImagesRefusedError(ModelError):
    """The model's server takes no images, or none such."""

    def __init__(self, message: str, *, sees_none: bool = False) -> None:
        super().__init__(message)
        self.sees_none = sees_none
        """It would refuse any other image, too."""


class ModelUnavailableError(ModelError):
    """A provider gave no answer: it refused, timed out, was overloaded or broke off."""

    def __init__(
        self,
        message: str,
        *,
        overloaded: bool = False,
        retry_after: float | None = None,
        retries: int = 0,
        brief: str = "no answer",
    ) -> None:
        super().__init__(message)
        self.brief = brief
        """The reason in a few words, shown while the request waits to be sent again."""
        self.overloaded = overloaded
        """It refuses more for now: the same request is served later, and everybody had better ask more slowly."""
        self.retry_after = retry_after
        """In how many seconds the provider wants to be asked again, where it says so."""
        self.retries = retries
        """How often it is worth while to ask again, where it is not overloaded."""


class ContextWindowError(ModelError):
    """A prompt does not fit into the model's window."""

    def __init__(self, message: str, *, tokens: int | None = None, window: int | None = None) -> None:
        super().__init__(message)
        self.tokens = tokens
        """How many tokens the prompt has, where that is known."""
        self.window = window
        """The model's window in tokens, where that is known."""


class UnusableReplyError(ModelError):
    """A model did reply, also when it was asked again, but with nothing, or with one thing over and over."""


class NoAnswerError(UnusableReplyError):
    """A model said by itself, and why, that it has no answer: asking it for its best one would bring nothing."""


class KernelError(RLMError):
    """The kernel can't be used."""


class KernelStartError(KernelError):
    """The kernel did not come up."""

    def __init__(self, message: str, *, killed: bool = False) -> None:
        super().__init__(message)
        self.killed = killed
        """A signal ended it, as where memory ran out: another try may help."""


class KernelDiedError(KernelError):
    """The kernel's process ended by itself."""


class ForkRefusedError(KernelError):
    """The kernel can't be forked; nothing has changed in it.

    Parameters
    ----------
    reason
        What a fork would lack, as the end of a sentence without its full stop.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"The kernel can't be forked: {reason}.")
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it by its reason."""
        return type(self), (self.reason,)


class PolicyError(RLMError):
    """A termination or reward policy failed, or gave what is no verdict or reward. Ends the run, its answer kept."""

    shows_frames = True


class LimitReached(RLMError):
    """A limit refuses a request. Inside a run it becomes the `stop_reason`, outside nobody sees it."""

    def __init__(self, message: str, *, stop_reason: StopReason, model_has_given_up: bool = False) -> None:
        super().__init__(message)
        self.stop_reason: StopReason = stop_reason
        self.model_has_given_up = model_has_given_up
        """It is what the model has said, and need not be asked for an answer."""


class RecordError(RLMError):
    """A saved run can't be read or written."""


class NoRunError(RecordError, ConfigurationError):
    """The run that was named is not there; the text says where it was looked for."""
