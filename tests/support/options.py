"""`docs/options.md`, as the table of options makes it: `python -m tests.support.options` writes it."""

from __future__ import annotations

from pathlib import Path

from rlm_jupyter.frontends.run_options import as_markdown

PAGE = Path(__file__).parents[2] / "docs" / "options.md"
_HEAD = """\
# Options

Of `jupyter rlm run` (and `batch`, but for `--session`, `--ledger`, `--estimate` and files to make), of `%rlm` and `%%rlm`, of `jupyter rlm resume` and `fork`, and of `%rlm_resume`. What is marked
under `%config` can be set once: `%config RLMMagics.max_cost = 0.50`, by the name that stands there, if one does. In Python the limits are fields of `Limits`
([limits and cost](limits.md)), `--read`, `--write` and `--container-image` fields of `Sandbox`; `--tool`, `--output` and `--schema` are
`tools=`, `outputs=` and `answer=` of `RLM`, most others its arguments by the name that stands under `%config`, if one does. `RLM` alone takes `kernel_name`, `cwd`, `warm` and `api_key`.

"""


def page() -> str:
    """Return the whole page."""
    return _HEAD + as_markdown()


if __name__ == "__main__":
    PAGE.write_text(page())
