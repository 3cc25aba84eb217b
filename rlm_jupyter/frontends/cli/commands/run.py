"""`run`: put a prompt to a model, show how it goes, print the answer."""

from __future__ import annotations

import json
import os
import re
import shlex
from argparse import ArgumentParser, Namespace
from contextlib import nullcontext
from dataclasses import asdict

from rlm_jupyter.frontends.cli import ANSWERED, terminal
from rlm_jupyter.frontends.cli.configuration import DEFAULT_MODEL, limits_of, model_of, rlm_of, save_path, say_no_model
from rlm_jupyter.frontends.cli.context import context_of
from rlm_jupyter.frontends.cli.outcome import answered
from rlm_jupyter.frontends.cli.shared_arguments import add_options, add_saving
from rlm_jupyter.types.errors import ConfigurationError

EXAMPLES = """\
  jupyter rlm run "Who signed last?" --context contract.pdf -m openai/gpt-5.4-mini
  jupyter rlm run "Where is the retry logic?" --context src 'docs/**/*.md' -m ollama/qwen3:8b
  zcat app.log.gz | jupyter rlm run "What failed first?" --max-seconds 120
  jupyter rlm run "How many orders are open?" --context orders.parquet --json | jq .value
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.add_argument("prompt", nargs="?", metavar="QUESTION", help="what to answer")
    parser.add_argument(
        "-c",
        "--context",
        nargs="+",
        action="extend",
        metavar="PATH",
        help="what it is about: files (text, csv, json, parquet, pdf, docx, xlsx, pptx, html, ipynb, zip, png, jpg; "
        ".gz too), folders, patterns, or - for standard input (default: what is piped in)",
    )
    add_options(parser, "cli")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the answer alone")
    parser.add_argument(
        "-y", "--yes", action="store_true", help="do not ask whether cells of a session may be executed again"
    )
    parser.set_defaults(no_reexec=False)
    add_saving(parser)


def run(args: Namespace) -> int:
    """Run `jupyter rlm run`; return the exit code."""
    limits = limits_of(args)
    prompt = _question(args)
    from rlm_jupyter.frontends.cli.session import answered_in_session, kept_session
    from rlm_jupyter.models.endpoint import keyless

    kept = kept_session(args, save_path(args))
    with keyless() if args.estimate else nullcontext():
        model = model_of(args)
        rlm = rlm_of(args, model or DEFAULT_MODEL, limits)
    from rlm_jupyter.run.context import Context

    context = Context(context_of(args))
    if model is None:
        say_no_model()
    if args.estimate:
        estimate = rlm.estimate(prompt, context)
        terminal.write(json.dumps(asdict(estimate)) if args.json else str(estimate))
        return ANSWERED
    if args.session is not None:
        return answered_in_session(args, rlm, kept, prompt, context)
    return answered(
        args, lambda tell, *, approve: rlm.start(prompt, context, on_event=tell, approve=approve), rlm.settings.save
    )


def _question(args: Namespace) -> str:
    """Return the question: where it stands last, the parser has taken it for one more of the paths of `--context`."""
    if args.prompt and args.prompt.strip():
        return str(args.prompt)
    *paths, last = args.context or [""]
    if args.prompt is None and _is_question(last):
        args.context = paths or None
        return str(last)
    question = '"QUESTION"' if not last or os.path.lexists(last) else shlex.quote(last)
    raise ConfigurationError(
        f"The question is missing. It comes first, or last behind --: jupyter rlm run {question} --context PATH, "
        f"or jupyter rlm run --context PATH -- {question}"
    )


def _is_question(text: str) -> bool:
    """Tell whether what was given as a path can only be a question: no file that is there, and none that is missing."""
    from rlm_jupyter.run.files.paths import names_file

    if names_file(text):
        return False
    text = text.strip()
    if len(text.split()) > 1:
        return text.endswith("?") or re.search(r"[/\\*]|\.\w{1,5}$", text) is None
    return text[:-1].isalpha() and text.endswith("?")
