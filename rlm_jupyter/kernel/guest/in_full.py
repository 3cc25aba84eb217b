"""`in_full`: while a value becomes text, no library leaves out the middle of it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

_LONGEST_INT = 100_000
"""Digits. Longer ones take seconds in which nothing can interrupt the cell."""


@contextlib.contextmanager
def in_full() -> Iterator[None]:
    """Write frames, arrays and numbers out in full, wherever in a value they are."""
    with contextlib.ExitStack() as stack:
        for library, options in (("pandas", _pandas), ("polars", _polars), ("numpy", _numpy)):
            module = sys.modules.get(library)
            if module is not None:
                # a module of another kind by that name, or one that is half imported, has no such options
                with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
                    stack.enter_context(options(module))
        limit = sys.get_int_max_str_digits()
        if 0 < limit < _LONGEST_INT:
            sys.set_int_max_str_digits(_LONGEST_INT)
            stack.callback(sys.set_int_max_str_digits, limit)
        yield


def _pandas(pandas: Any) -> contextlib.AbstractContextManager[Any]:
    options: list[Any] = ["display.width", None, "display.expand_frame_repr", False]
    for name in ("max_rows", "max_columns", "max_colwidth", "max_seq_items"):
        options += [f"display.{name}", None]
    # all digits, unless the model asked for fewer
    if pandas.get_option("display.precision") == 6 and pandas.get_option("display.float_format") is None:
        options += ["display.float_format", str]
    context: contextlib.AbstractContextManager[Any] = pandas.option_context(*options)
    return context


def _polars(polars: Any) -> contextlib.AbstractContextManager[Any]:
    context: contextlib.AbstractContextManager[Any] = polars.Config(
        tbl_rows=-1,
        tbl_cols=-1,
        tbl_width_chars=-1,
        fmt_str_lengths=sys.maxsize,
        fmt_table_cell_list_len=-1,
        fmt_float="full",
    )
    return context


def _numpy(numpy: Any) -> contextlib.AbstractContextManager[Any]:
    options: dict[str, Any] = {"threshold": sys.maxsize}
    now = numpy.get_printoptions()
    if now["precision"] == 8 and now["floatmode"] == "maxprec":
        options["floatmode"] = "unique"
    if now["legacy"] is False and int(numpy.__version__.partition(".")[0]) >= 2:
        options["legacy"] = "1.25"  # {'n': 4}, not {'n': np.int64(4)}
    context: contextlib.AbstractContextManager[Any] = numpy.printoptions(**options)
    return context
