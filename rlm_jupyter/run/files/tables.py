"""`separated`, `parquet`, `workbook`: files that hold tables, as pandas frames."""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

from rlm_jupyter.run.files.archive import repacked
from rlm_jupyter.run.files.encodings import decoded
from rlm_jupyter.run.files.layout import layout_of
from rlm_jupyter.run.files.unreadable import INSTALL, Note, Unreadable, first_line, needs, reading
from rlm_jupyter.types.shortened import shortened

_EXACT = 2**53
"""From here on a float has not every whole number."""
_MOST_NAME_CHARS = 200
_UNSAVED = re.compile(rb'<c (?![^>]*t="str")[^>]*>(?:<f[^>]*/>|<f[^>]*>[^<]*</f>)(?:<v ?/>|<v></v>|</c>)')
"""A formula in a sheet's XML without its value; one that comes to an empty text has the type `str`."""


def separated(data: bytes, note: Note, *, separator: str) -> object:
    """Return text with separators as a frame; where it is no regular table, or pandas is missing, as text with a note.

    Parameters
    ----------
    separator
        As for `layout_of`.

    Raises
    ------
    Unreadable
        As for `decode`.
    """
    text, encoding = decoded(data, note)
    if not text.strip():
        return text
    try:
        import pandas as pd
    except ImportError:
        note(f"taken as text: a table needs pandas ({INSTALL}).")
        return text
    layout = layout_of(text, separator)
    layout.tell(note)

    def frame(*, left_over: Literal["error", "ignore"] = "ignore", **how: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter(left_over, pd.errors.ParserWarning)
            # from the bytes: a StringIO of a large file would take four times its size
            return pd.read_csv(
                io.BytesIO(data),
                sep=layout.separator,
                encoding=encoding,
                encoding_errors="replace",
                low_memory=False,
                skiprows=len(layout.above),
                **how,
            )

    try:
        found, how = _aligned(frame, pd.errors.ParserWarning, note)
        ahead = (re.escape(layout.separator), r"\n", '"')
        has_zeros = any(re.search(rf"{before}\s*[+-]?0\d", text) for before in ahead)
        if has_zeros or _rounded(found):
            as_text = frame(dtype=str, **how)
            if has_zeros:
                _keep_leading_zeros(found, as_text, note)
            for name in _rounded(found):
                if as_text[name].dropna().str.strip().str.fullmatch(r"[+-]?\d+").all():
                    found[name] = _whole(as_text[name])
    except (pd.errors.ParserError, ValueError) as error:
        note(f"taken as text: no regular table ({first_line(error)}).")
        return text
    return found


def _aligned(frame: Callable[..., Any], warning: type[Warning], note: Note) -> tuple[Any, dict[str, Any]]:
    """Read a table with each value below its own title, and return how it was read too.

    Of rows that are longer than the header, pandas takes the first fields for an index, which moves all others.

    Parameters
    ----------
    frame
        Reads it; told whether fields that are left over are an error.
    warning
        That error.
    note
        Told where the first fields are an index after all.

    Raises
    ------
    ValueError
        Only some rows are longer, or there is one title alone, so that nobody can tell which one a value belongs to.
    """
    by_title = {"index_col": False}
    with suppress(warning):
        return frame(left_over="error", **by_title), by_title
    found = frame()
    if found.shape[1] == 1 and not found.iloc[:, 0].isna().all():
        raise ValueError("the rows have more fields than the header, which has one")
    fields = [found.index.get_level_values(level) for level in range(found.index.nlevels)]
    fields += [found.iloc[:, place] for place in range(found.shape[1])]
    missing = [field.isna() for field in fields[found.shape[1] :]]
    if all(field.all() for field in missing):  # separators at the end of each line
        return frame(**by_title), by_title
    if any(field.any() for field in missing):
        raise ValueError("some rows have more fields than the header")
    note("its rows have more fields than its header: the first of them are taken for the rows' names (the index).")
    return found, {}


def _rounded(frame: Any) -> list[Any]:
    """Return the columns with gaps whose numbers may have been whole, and are too large for all their digits."""
    if not frame.columns.is_unique:
        return []
    floats = [name for name, kind in frame.dtypes.items() if kind == "float64"]
    return [name for name in floats if frame[name].isna().any() and frame[name].abs().max() >= _EXACT]


def _whole(written: Any) -> Any:
    """Return whole numbers with gaps as integers that may be missing; as they are written if they are too large."""
    import numpy as np
    import pandas as pd

    gaps = written.isna().to_numpy(bool)
    try:
        numbers = [0 if gap else int(number) for number, gap in zip(written, gaps, strict=True)]
        return pd.arrays.IntegerArray(np.array(numbers, "int64"), gaps)
    except (OverflowError, ValueError):
        return written.array


def _keep_leading_zeros(frame: Any, as_text: Any, note: Note) -> None:
    """Have text in place of numbers where a number has no place for what was written: the zeros of `00501`."""
    from pandas.api.types import infer_dtype

    kept = []
    for name in frame.columns:
        # of what pandas holds as objects, some are numbers too large for it
        is_number = infer_dtype(frame[name], skipna=True) in {"integer", "floating"}
        if is_number and as_text[name].str.fullmatch(r"\s*[+-]?0\d+\s*").any():
            frame[name] = as_text[name].array
            kept.append(str(name))
    if kept:
        note(f"taken as text for its leading zeros: {shortened(', '.join(kept), _MOST_NAME_CHARS)}.")


def parquet(data: bytes, _: Note) -> object:
    """Return a parquet file as a frame.

    Raises
    ------
    Unreadable
        It is malformed, or a library is missing.
    """
    try:
        import pandas as pd
        import pyarrow as pa
        from pyarrow import parquet as files
    except ImportError:
        raise needs("a parquet file", "pandas and pyarrow") from None
    with reading("parquet file"):
        frame = pd.read_parquet(io.BytesIO(data), engine="pyarrow")
        exact = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
        for name in _rounded(frame):
            stored = files.read_table(io.BytesIO(data), columns=[str(name)])  # pandas may call it by a number
            if stored.num_columns == 1 and stored.column(0).type in exact:
                frame[name] = stored.column(0).to_pandas(types_mapper=exact.get).array
        return frame


def workbook(data: bytes, note: Note) -> object:
    """Return an Excel workbook: a frame, or a dict of frames by sheet where several hold something.

    Parameters
    ----------
    note
        Told of sheets that are empty, and of formulas whose values were not saved.

    Raises
    ------
    Unreadable
        It is malformed, encrypted or too large, nothing is in it, or a library is missing.
    """
    try:
        import openpyxl  # noqa: F401  what pandas reads it with
        import pandas as pd
    except ImportError:
        raise needs("an Excel workbook", "pandas and openpyxl") from None
    file = repacked(data, "Excel workbook")
    with reading("Excel workbook"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of formats and checks, which are no values
        # as they are stored: pandas would take texts such as 00501, NA or +49 for what they look like
        sheets: dict[str, Any] = pd.read_excel(
            file, sheet_name=None, engine="openpyxl", dtype=object, keep_default_na=False, na_values=[""]
        )
    filled = {name: _of_kinds(frame) for name, frame in sheets.items() if len(frame.columns)}
    if not filled:
        raise Unreadable("an Excel workbook without a value in it.")
    if empty := [name for name in sheets if name not in filled]:
        note(f"left out {', '.join(empty)}: no value in {'this sheet' if len(empty) == 1 else 'these sheets'}.")
    if unsaved := _formulas_without_value(file):
        count = "1 formula was" if unsaved == 1 else f"{unsaved:,} formulas were"
        note(f"{count} saved without a value, which is missing: open it in a spreadsheet program and save it.")
    return filled if len(filled) > 1 else next(iter(filled.values()))


def _of_kinds(stored: Any) -> Any:
    """Return a sheet with each column of the kind that all its values have; where they differ, as they are."""
    frame = stored.infer_objects()
    for name in _rounded(frame):
        if stored[name].dropna().map(type).eq(int).all():
            frame[name] = _whole(stored[name])
    return frame


def _formulas_without_value(file: io.BytesIO) -> int:
    with zipfile.ZipFile(file) as archive:
        sheets = [name for name in archive.namelist() if name.startswith("xl/worksheets/")]
        return sum(len(_UNSAVED.findall(archive.read(name))) for name in sheets)
