"""`joined`: the notebook's file of the runs that stand in it."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Sequence

from rlm_jupyter.record.notebook_layout import Layout

_KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
_LANGUAGE = {
    "codemirror_mode": {"name": "ipython", "version": sys.version_info.major},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": f"ipython{sys.version_info.major}",
    "version": platform.python_version(),
}
"""As ipykernel says it: a page that finds something else counts the notebook as changed as soon as it is open."""


def joined(layouts: Sequence[Layout]) -> list[bytes]:
    """Return the notebook of these runs, the prompts of one kernel, in pieces that nothing changes any more."""
    pieces = [b'{\n "cells": [\n']
    for layout in layouts:
        for cell in layout.cells():
            pieces += [cell, b",\n"]
    pieces[-1] = b'\n ],\n "metadata": '
    first, *others = layouts
    metadata = b"".join(
        [
            b'{\n  "kernelspec": ' + json.dumps(_KERNEL).encode() + b",\n",
            b'  "language_info": ' + json.dumps(_LANGUAGE).encode() + b",\n",
            b'  "rlm": ' + first.metadata([other.metadata() for other in others]) + b"\n }",
        ]
    )
    return [*pieces, metadata, b',\n "nbformat": 4,\n "nbformat_minor": 5\n}\n']
