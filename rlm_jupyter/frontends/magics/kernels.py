"""`KeptKernels`: the results that the variables of a session hold, and the kernels that are kept with them.

A kernel belongs to the variable that its result stands in. It is closed when a later run takes the variable, when it
was not used for long enough, when too many are kept, or with the session; the result keeps all that it has.
"""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import Future

from rlm_jupyter.frontends.live.result import BackgroundRun, ShownResult, kernel_of
from rlm_jupyter.run.background_session import BackgroundSession
from rlm_jupyter.types.events import Event, ReplyReceived, RunResumed

Holds = ShownResult | BackgroundRun


class KeptKernels:
    """Results and kernels by variable. Thread-safe.

    Parameters
    ----------
    most
        Kernels at once.
    idle_seconds
        Without use, after which one is closed; `None`: never.
    """

    def __init__(self, most: int, idle_seconds: float | None) -> None:
        self.most = most
        self.lock = threading.RLock()
        self._idle_seconds = idle_seconds
        self._claims: dict[str, list[Claim]] = {}
        """By variable, in the order in which the runs were started: the first of each is the holder."""
        self._sessions: dict[str, BackgroundSession] = {}
        """Kernels of sessions by their name: they outlive the results of their prompts."""
        self._closing: list[Future[None]] = []
        self._said: list[str] = []

    def claim(self, variable: str, *, resumed: bool = False) -> Claim:
        """Announce a run for a variable, before it is started.

        Parameters
        ----------
        resumed
            A recorded run: replies that come before `RunResumed` are those of its record.
        """
        claim = Claim(self, variable, resumed)
        with self.lock:
            self._claims.setdefault(variable, []).append(claim)
        return claim

    def add_session(self, name: str, kernel: BackgroundSession) -> None:
        """Keep the kernel of a session; it is closed as others are, but for its results' variables."""
        with self.lock:
            self._sessions[name] = kernel
        kernel.close_after(self._idle_seconds)

    def before(self, claim: Claim) -> list[Claim]:
        """Return the claims on the same variable that this one would end."""
        claims = self._claims.get(claim.variable, [])
        return claims[: claims.index(claim)] if claim in claims else []

    def is_valid(self, claim: Claim) -> bool:
        """Return whether no later run has taken the variable."""
        return claim in self._claims.get(claim.variable, [])

    def enter(self, value: Holds, variable: str) -> None:
        """Bind the kernel of a value to its variable."""
        if (kernel := kernel_of(value)) is not None and not kernel.name:
            kernel.owner = variable
            kernel.close_after(self._idle_seconds)

    def succeed(self, claim: Claim) -> None:
        """Close what the variable held before this claim, and make room for its kernel."""
        for earlier in self.before(claim):
            self._claims[claim.variable].remove(earlier)
            self._close(earlier, f"another run took {claim.variable}")
        self._said += self.make_room()

    def withdraw(self, claim: Claim) -> None:
        """Forget a claim."""
        with self.lock:
            if self.is_valid(claim):
                self._claims[claim.variable].remove(claim)

    def make_room(self, count: int = 0) -> list[str]:
        """Close the kernels that were not used for longest until `count` more fit; a line for each, for people.

        One that is in use is never closed: then there are more for a while.
        """
        said = []
        with self.lock:
            kernels = self._kernels()
            idle = sorted((kernel.used, variable, kernel) for variable, kernel in kernels.items() if not kernel.in_use)
            for used, variable, kernel in idle[: max(len(kernels) + count - self.most, 0)]:
                why = f"to make room: at most {self.most} are kept"
                kernel.given_up = why
                self._closing.append(kernel.close_soon(why))
                minutes = (time.monotonic() - used) / 60
                keeps = "Its next prompt starts another." if kernel.name else f"{variable} keeps its answer."
                said.append(
                    f"The kernel of {variable}, unused for {minutes:.0f} min, was closed {why} "
                    f"(RLMMagics.max_kept_kernels). {keeps}"
                )
        return said

    def settle(self) -> list[str]:
        """Wait until the kernels that gave way are gone; return a line for each that people should know of."""
        with self.lock:
            said, self._said = self._said, []
            closing, self._closing = self._closing, []
        for future in closing:
            future.result()
        return said

    def close_after(self, idle_seconds: float | None) -> None:
        """Set the idle limit anew, of those that are kept too."""
        self._idle_seconds = idle_seconds
        for kernel in self._kernels().values():
            kernel.close_after(idle_seconds)

    def close(self) -> None:
        """Close every kernel: the session ends."""
        with self.lock:
            claims = [claim for claims in self._claims.values() for claim in claims]
            sessions = list(self._sessions.values())
            self._claims.clear()
            self._sessions.clear()
        # while the interpreter exits, no thread can be started to see the killed process off
        for claim in claims:
            with contextlib.suppress(RuntimeError):
                self._close(claim, "the session ended")
        with contextlib.suppress(RuntimeError):
            self._closing += [kernel.close_soon("the session ended") for kernel in sessions]
            self.settle()

    def _close(self, claim: Claim, why: str) -> None:
        """Stop the run of a claim, or close its kernel, without waiting: this may be the loop that closes it."""
        if claim.value is None:
            return
        kernel = kernel_of(claim.value)
        if kernel is not None and kernel.name:
            kernel = None  # it goes on with the session
        if kernel is not None:
            kernel.given_up = why
        if isinstance(claim.value, BackgroundRun):
            claim.value.stop(why)
        elif kernel is not None:
            self._closing.append(kernel.close_soon(why))

    def _kernels(self) -> dict[str, BackgroundSession]:
        """Return those that live, by variable."""
        with self.lock:
            held = [(claim.variable, claim.value) for claims in self._claims.values() for claim in claims]
            kernels: list[tuple[str, BackgroundSession | None]] = [
                (f"the session {name}", kernel) for name, kernel in self._sessions.items()
            ]
        kernels += [(variable, kernel_of(value)) for variable, value in held if value is not None]
        alive = [(variable, kernel) for variable, kernel in kernels if kernel is not None and kernel.is_alive]
        by_session = {id(kernel): variable for variable, kernel in reversed(alive)}
        return {
            variable: kernel for variable, kernel in alive if by_session[id(kernel)] == variable and not kernel.given_up
        }


class Claim:
    """A run's claim on a variable, from before it starts until a later run takes the variable.

    What the variable held stays until this run has begun, which is when the model has replied for the first time. Up
    to then nothing was paid for, and what is wrong with the call, the configuration, the key or the provider has shown
    itself; from then on, there is something to hold instead. So one kernel more is alive for that long.

    Made by `KeptKernels.claim`. Called with the events of its run, on any thread.
    """

    def __init__(self, kept: KeptKernels, variable: str, resumed: bool) -> None:
        self.variable = variable
        self.value: Holds | None = None
        self.has_begun = False
        self.is_left = False
        """The run goes on in the background, which sees to its end."""
        self._kept = kept
        self._is_from_record = resumed

    def __call__(self, event: Event) -> None:
        """Take the variable with the first reply."""
        if isinstance(event, RunResumed):
            self._is_from_record = False
        elif isinstance(event, ReplyReceived) and not self._is_from_record:
            self._begin()

    @property
    def before(self) -> Holds | None:
        """What the variable would hold without this claim."""
        with self._kept.lock:
            held = [claim.value for claim in self._kept.before(self) if claim.value is not None]
        return held[-1] if held else None

    def hold(self, value: Holds) -> bool:
        """Note the run under way, or its result, which takes the variable; whether no later run has taken it."""
        with self._kept.lock:
            if not self._kept.is_valid(self):
                return False
            self.value = value
            self._kept.enter(value, self.variable)
            if isinstance(value, ShownResult):
                self._begin()
            return True

    def withdraw(self) -> None:
        """Leave the variable to what it held before."""
        self._kept.withdraw(self)

    def _begin(self) -> None:
        with self._kept.lock:
            if not self.has_begun:
                self.has_begun = True
                self._kept.succeed(self)
