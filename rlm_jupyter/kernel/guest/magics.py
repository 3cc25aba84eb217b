"""`%llm_query` and `%%llm_query`: a sub-call as a magic."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from IPython.core.magic import Magics, line_cell_magic, magics_class


@magics_class
class SubcallMagics(Magics):
    """Registered in the kernel beside the functions of the same name."""

    @line_cell_magic
    def llm_query(self, line: str, cell: str | None = None) -> Any:
        """Ask a language model: `%llm_query [-m MODEL] [-o VARIABLE] prompt`, or `%%llm_query` with the prompt below.

        In a line, `{expression}` and `$name` are filled in by IPython. The reply is the value of the line,
        or goes into VARIABLE.
        """
        options, rest = self.parse_options(
            line, "m:o:", "model=", "output=", posix=False, strict=False, preserve_non_opts=True
        )
        prompt = rest.strip() if cell is None else f"{rest}\n{cell}".strip()
        shell: Any = self.shell
        reply = shell.user_ns["llm_query"](prompt, options.get("m", options.get("model")))
        output = options.get("o", options.get("output"))
        if output:
            shell.push({output: reply})
            return None
        return reply


def keep_questions(*names: str) -> Callable[[list[str]], list[str]]:
    """Return an input transformer for `%name What is it?`: a question, not IPython's help on `it`.

    Parameters
    ----------
    names
        The line magics whose text may end with a question mark.
    """
    asked = re.compile(rf"(\s*)%({'|'.join(names)})\s+(\S.*\?)\s*$")

    def transform(lines: list[str]) -> list[str]:
        # the text of a cell magic is nobody's to change
        if lines[:1] and lines[0].startswith("%%"):
            return lines
        return [
            f"{found[1]}get_ipython().run_line_magic({found[2]!r}, {found[3]!r})\n" if found else line
            for line, found in ((line, asked.match(line)) for line in lines)
        ]

    return transform
