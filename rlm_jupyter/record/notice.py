"""A notice to the model, as the Markdown of a cell: whoever reads the notebook sees whom it was said to."""

from __future__ import annotations

from rlm_jupyter.prompts.notices import EDITED

_EDIT = EDITED.partition("\n")[0]


def quoted_notice(text: str) -> str:
    """Return a notice as a quotation, with its addressee; of an edit alone what stands in no cell."""
    # the code that ran is that of the cell above
    said = "The user edited this cell before it ran." if text.startswith(_EDIT) else text
    return "  \n".join(f"> {line}" for line in f"*To the model:* {said}".splitlines())
