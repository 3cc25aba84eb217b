"""HTML for a notebook's page. Whatever a model or a document said is escaped here, and nowhere else.

Colours come from the page's own theme: the `--jp-*` variables of JupyterLab, Notebook and nbconvert, with
those of VS Code, or the text's own colour, where they are not. Without its style sheet (as in a notebook
that is not trusted) it still reads: it is made of `details`, `pre` and `p`.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from rlm_jupyter.record import safe_html

Tone = Literal["running", "good", "warn", "bad"]
"""Of a headline: under way, ended with an answer, ended by a limit, failed."""
_FADED = "var(--jp-content-font-color2, var(--vscode-descriptionForeground, inherit))"
_BORDER = "var(--jp-border-color2, var(--vscode-panel-border, rgba(128, 128, 128, .35)))"
_MONO = "var(--jp-code-font-family, var(--vscode-editor-font-family, monospace))"
_STYLE = f"""
.rlm {{ font-family: var(--jp-content-font-family, inherit); font-size: var(--jp-ui-font-size1, 13px);
  line-height: 1.5; }}
.rlm .rlm-faded, .rlm summary {{ color: {_FADED}; }}
.rlm-head {{ display: flex; flex-wrap: wrap; gap: 0 .75em; align-items: baseline; padding: 2px 0;
  font-variant-numeric: tabular-nums; }}
.rlm-dot {{ width: .6em; height: .6em; border-radius: 50%; flex: none; background: var(--jp-brand-color1, #1976d2); }}
.rlm-dot.rlm-good {{ background: var(--jp-success-color1, #388e3c); }}
.rlm-dot.rlm-warn {{ background: var(--jp-warn-color1, #f57c00); }}
.rlm-dot.rlm-bad {{ background: var(--jp-error-color1, #d32f2f); }}
.rlm .rlm-iteration {{ border-left: 2px solid {_BORDER}; margin: 6px 0 6px .25em; padding: 0 0 0 .9em; }}
.rlm .rlm-iteration.rlm-now {{ border-left-color: var(--jp-brand-color1, #1976d2); }}
.rlm summary {{ cursor: pointer; display: list-item; padding: 1px 0; }}
.rlm summary b {{ font-weight: 600; color: var(--jp-content-font-color1, inherit); }}
.rlm .rlm-prose {{ margin: 2px 0 4px; max-width: 62em; overflow-wrap: anywhere; }}
.rlm .rlm-prose > :first-child {{ margin-top: 0; }}
.rlm .rlm-prose > :last-child {{ margin-bottom: 0; }}
.rlm .rlm-stream {{ white-space: pre-wrap; }}
.rlm pre.rlm-code, .rlm pre.rlm-output {{ font-family: {_MONO};
  font-size: var(--jp-code-font-size, 13px); line-height: var(--jp-code-line-height, 1.3077); margin: 4px 0;
  padding: 5px 8px; white-space: pre-wrap; overflow-wrap: anywhere; overflow: auto; max-height: 22em; }}
.rlm pre.rlm-code {{ background: var(--jp-cell-editor-background, rgba(128, 128, 128, .08));
  border: 1px solid {_BORDER}; border-radius: 2px; }}
.rlm pre.rlm-output {{ background: none; padding-top: 0; max-height: 14em;
  color: var(--jp-content-font-color1, inherit); }}
.rlm pre.rlm-failed {{ background: var(--jp-rendermime-error-background, rgba(211, 47, 47, .12)); padding-top: 5px; }}
.rlm .rlm-note {{ margin: 4px 0; max-width: 62em; padding-left: .6em;
  border-left: 2px solid var(--jp-warn-color1, #f57c00);
  color: {_FADED}; white-space: pre-wrap; }}
.rlm [class^="hl-k"], .rlm .hl-ow {{ color: var(--jp-mirror-editor-keyword-color, inherit); font-weight: 600; }}
.rlm [class^="hl-s"] {{ color: var(--jp-mirror-editor-string-color, inherit); }}
.rlm [class^="hl-c"] {{ color: var(--jp-mirror-editor-comment-color, inherit); font-style: italic; }}
.rlm [class^="hl-m"] {{ color: var(--jp-mirror-editor-number-color, inherit); }}
.rlm .hl-nb {{ color: var(--jp-mirror-editor-builtin-color, inherit); }}
.rlm .hl-nf, .rlm .hl-nc {{ color: var(--jp-mirror-editor-def-color, inherit); }}
.rlm .hl-o {{ color: var(--jp-mirror-editor-operator-color, inherit); }}
.jp-CodeCell.celltag_rlm, .jp-MarkdownCell:has(> * .celltag_rlm), .cell.celltag_rlm {{
  border-left: 3px solid var(--jp-brand-color2, #90caf9); }}
.celltag_rlm .jp-InputPrompt, .code_cell.celltag_rlm .input_prompt {{ position: relative; visibility: hidden; }}
.celltag_rlm .jp-InputPrompt::after, .code_cell.celltag_rlm .input_prompt::after {{ content: "model";
  visibility: visible; position: absolute; right: .4em; }}
.celltag_rlm-edit .jp-InputPrompt::after, .code_cell.celltag_rlm-edit .input_prompt::after {{ content: "edit"; }}
.celltag_rlm .jp-OutputPrompt, .celltag_rlm .output_prompt {{ visibility: hidden; }}
"""
"""The last lines are for a page that nbconvert has made of a notebook: it knows a run's cells by their tags."""


def block(*pieces: str, label: str = "", styled: bool = True) -> str:
    """Return the whole of one display, with its style sheet; with a `label`, of a run that is under way.

    JupyterLab's extension knows the latter by its class, and hides it where its own bar says the same. There it
    is not `styled`: for each style sheet that comes or goes, a browser looks at every element of the page again.
    Formulas are looked for in prose alone: what stands between the dollar signs of two costs is none.
    """
    live = f' rlm-under-way" role="status" aria-live="polite" aria-label="{html.escape(label)}' if label else ""
    style = f"<style>{_STYLE}</style>" if styled else ""
    return f'<div class="rlm mathjax_ignore{live}">{style}{"".join(pieces)}</div>'


def headline(tone: Tone, title: str, facts: Sequence[str], *, path: Path | None = None) -> str:
    """Return one line: a coloured dot, what is going on, numbers, and where the notebook is."""
    parts = [f'<span class="rlm-dot rlm-{tone}"></span><b>{html.escape(title)}</b>']
    # with its separator, for a page that leaves the styles out
    parts += [f'<span class="rlm-faded">· {html.escape(fact)}</span>' for fact in facts]
    if path is not None:
        parts.append(link(path))
    return f'<div class="rlm-head">{" ".join(parts)}</div>'


def facts(text: str, link: str = "") -> str:
    """Return a small line of numbers, with a link of this module's making."""
    return f'<div class="rlm-head rlm-faded"><span>{html.escape(text)}</span>{link}</div>'


def iteration(title: str, facts: Sequence[str], body: str, *, is_open: bool, now: bool = False) -> str:
    """Return a foldable iteration; `body` is HTML of this module's making."""
    said = "".join(f" · {html.escape(fact)}" for fact in facts)
    summary = f"<summary><b>{html.escape(title)}</b>{said}</summary>"
    css = "rlm-iteration rlm-now" if now else "rlm-iteration"
    return f'<details class="{css}"{" open" if is_open else ""}>{summary}{body}</details>'


def folded(title: str, body: str) -> str:
    """Return something folded away under a title; `body` is HTML of this module's making."""
    return f"<details><summary>{html.escape(title)}</summary>{body}</details>"


def prose(text: str) -> str:
    """Return a model's prose, its Markdown drawn."""
    return f'<div class="rlm-prose mathjax_process">{safe_html.markdown(text)}</div>' if text.strip() else ""


def stream(text: str) -> str:
    """Return a reply that is still arriving, as it stands."""
    return f'<div class="rlm-prose rlm-stream">{html.escape(text)}</div>' if text.strip() else ""


def note(text: str) -> str:
    """Return something of the run's own."""
    return f'<div class="rlm-note">{html.escape(text)}</div>'


def output(text: str, *, failed: bool = False) -> str:
    """Return what a cell put out."""
    css = "rlm-output rlm-failed" if failed else "rlm-output"
    return f'<pre class="{css}">{html.escape(text)}</pre>' if text else ""


def code(source: str) -> str:
    """Highlight Python, in a box."""
    # a bare `pre`: Lab trims and styles nothing inside it
    return f'<pre class="rlm-code">{safe_html.python(source)}</pre>'


def file(path: Path, size: str) -> str:
    """Return a line with a file that a run has made: a link, where it is in the working directory."""
    try:
        shown = path.relative_to(Path.cwd())
    except ValueError:
        name = html.escape(str(path))
    else:
        address = html.escape(quote(shown.as_posix()))
        name = f'<a href="{address}" target="_blank">{html.escape(str(shown))}</a>'
    return f'<div class="rlm-head"><span>File: {name} <span class="rlm-faded">{html.escape(size)}</span></span></div>'


def link(path: Path) -> str:
    """Link to a notebook: relative, where it is in the working directory, so that a notebook's page finds it."""
    try:
        shown = path.relative_to(Path.cwd())
    except ValueError:
        return f'<span class="rlm-faded">{html.escape(str(path))}</span>'
    address, name = html.escape(quote(shown.as_posix())), html.escape(shown.stem)
    return f'<a href="{address}" title="{html.escape(str(shown))}" target="_blank">{name}</a>'
