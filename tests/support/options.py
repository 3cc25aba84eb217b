"""`docs/options.md`, as the table of options makes it: `python -m tests.support.options` writes it."""

from __future__ import annotations

from pathlib import Path

from rlm_jupyter.frontends.cli.parser import make_parser
from rlm_jupyter.frontends.run_options import OPTIONS, as_markdown

PAGE = Path(__file__).parents[2] / "docs" / "options.md"
_HEAD = """\
# Options

Of `jupyter rlm run` (and `batch`, but for {not_in_a_batch}), of `%rlm` and `%%rlm`, of `jupyter rlm resume` and `fork`, and of `%rlm_resume`. What is marked
under `%config` can be set once: `%config RLMMagics.max_cost = 0.50`, by the name that stands there, if one does. In Python the limits are fields of `Limits`
([limits and cost](limits.md)), `--read`, `--write` and `--container-image` fields of `Sandbox`; `--tool`, `--output` and `--schema` are
`tools=`, `outputs=` and `answer=` of `RLM`, most others its arguments by the name that stands under `%config`, if one does. `RLM` alone takes `kernel_name`, `cwd`, `warm` and `api_key`.

"""


def page() -> str:
    """Return the whole page."""
    return _HEAD.format(not_in_a_batch=_not_in_a_batch()) + as_markdown()


def _not_in_a_batch() -> str:
    """Return the options of the table that `run` takes and `batch` does not, as their parsers have them."""
    commands = [make_parser(name).called for name in ("run", "batch")]
    run, batch = (set(command._option_string_actions) for command in commands if command is not None)
    *flags, last = [f"`{option.flags[-1]}`" for option in OPTIONS if option.flags[-1] in run - batch]
    return f"{', '.join(flags)} and {last}"


if __name__ == "__main__":
    PAGE.write_text(page())
