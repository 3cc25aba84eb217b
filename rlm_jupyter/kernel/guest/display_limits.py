"""`bound_displays`: what a cell displays, and its tracebacks, up to a number.

Each is a message. A cell that sends them without end is ahead of whoever reads them: the news that it was interrupted
comes after them all, and who waits for it in vain kills the kernel, with all its variables.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from typing import Any

from rlm_jupyter.kernel.guest.sigint import Interrupts, end_in_the_cell
from rlm_jupyter.kernel.guest.stream_limits import OutputFloodError

MOST_DISPLAYS = MOST_UPDATES = 10_000
"""Of a cell: no more is kept of it. As often may it change one, and clear its output; together that is no flood yet."""
MOST_TRACEBACKS = 500
"""That a cell may show by itself; the one that ends it comes on top."""


def bound_displays(shell: Any, interrupts: Interrupts) -> None:
    """Refuse what a cell shows beyond that: an error in the cell, silence in its other threads.

    On the objects that are there: much code asks for the name of the shell's class.

    Parameters
    ----------
    shell
        The kernel's.
    interrupts
        Tells whether the model's code is at work, and when it was interrupted.
    """
    publisher, shown = shell.display_pub, Counter[tuple[str, str]]()
    publish, clear_output = publisher.publish, publisher.clear_output
    show_traceback, send_traceback = shell.showtraceback, shell._showtraceback

    def is_one_more(what: str, most: int) -> bool:
        """Return whether there may be one more; put an error into the cell, where there may not."""
        cell = str(publisher.parent_header.get("msg_id", ""))
        shown[what, cell] += 1
        if shown[what, cell] <= most:
            return True
        if threading.current_thread() is threading.main_thread():
            raise OutputFloodError(
                f"this cell has {what} more than {most:,} times, and no more is shown. Show little at once, and keep "
                "the rest in variables."
            )
        return False

    def published(data: Any, metadata: Any = None, *, update: bool = False, **options: Any) -> None:
        if is_one_more("updated a display", MOST_UPDATES) if update else is_one_more("displayed", MOST_DISPLAYS):
            publish(data, metadata, update=update, **options)

    def cleared(wait: bool = False) -> None:
        if is_one_more("cleared its output", MOST_UPDATES):
            clear_output(wait)

    def sent(*traceback: Any) -> None:
        # without the model's code below us, it is IPython that shows what has ended the cell
        if not interrupts.in_model_code() or is_one_more("shown a traceback", MOST_TRACEBACKS):
            send_traceback(*traceback)

    def showed(*args: Any, **options: Any) -> None:
        before = interrupts.raised
        end_in_the_cell(sys.exc_info()[1])
        show_traceback(*args, **options)
        if interrupts.raised != before and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt  # IPython prints it, and goes on

    publisher.publish, publisher.clear_output = published, cleared
    shell.showtraceback, shell._showtraceback = showed, sent
