"""Errors of runs as the cells of a notebook show them: a line, and no frames of ours."""

from __future__ import annotations

from rlm_jupyter.run import ctrl_c
from rlm_jupyter.types.errors import RLMError


def line_of(error: BaseException) -> str:
    """Return an error as one line."""
    text = error.for_notebook if isinstance(error, RLMError) else str(error)
    return f"{type(error).__name__}: {' '.join(text.split())}".removesuffix(": ")


def in_one_line(error: BaseException) -> BaseException:
    """Make IPython show an error that ends a cell as one line: the frames below it are not the reader's."""
    from IPython.core.getipython import get_ipython

    if isinstance(error, KeyboardInterrupt):
        ctrl_c.let_cell_end(get_ipython())
    whole, command = line_of(error), ""
    if isinstance(error, RLMError):
        # what executes notebooks reads this text alone; to a person the headline above says where the run is
        text, command = error.for_notebook, error.resume
        error.advice = error.resume = ""
        whole, error.args = line_of(error), (text, *error.args[1:])
    name, _, rest = whole.partition(":")
    # IPython prints all of an error with an exception group among its contexts, whatever it says of itself
    error.__cause__ = error.__context__ = None
    lines = [f"\x1b[31m{name}\x1b[0m{':' if rest else ''}{rest}", *filter(None, [command])]
    if isinstance(error, KeyboardInterrupt) and rest:
        lines = [rest.strip()]  # somebody wanted it so: no name of an exception, and no red
    error.__dict__["_render_traceback_"] = lambda: lines
    return error
