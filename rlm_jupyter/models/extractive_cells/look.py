"""The first cell: what there is to read."""

# ruff: noqa: I001, T201

from __future__ import annotations

from rlm_jupyter.models.extractive_cells.kernel import context

# %%
import reprlib

size = f", {len(context):,} long" if hasattr(context, "__len__") else ""
print(f"context is of type {type(context).__name__}{size}. It begins:")
if isinstance(context, str):
    print(context[:500])
else:
    print(context.head() if hasattr(context, "head") else reprlib.repr(context))
