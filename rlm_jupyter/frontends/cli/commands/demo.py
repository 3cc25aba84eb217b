"""`demo`: a whole run without a model, a key or a network."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial

from rlm_jupyter.frontends.cli import terminal
from rlm_jupyter.frontends.cli.configuration import DEFAULT_MODEL, save_path
from rlm_jupyter.frontends.cli.outcome import answered
from rlm_jupyter.frontends.cli.shared_arguments import add_saving
from rlm_jupyter.types.errors import ConfigurationError

EXAMPLES = """\
  jupyter rlm demo
  jupyter rlm demo --no-save
"""
DEMO_PROMPT = "When are default parameter values evaluated?"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    add_saving(parser)


def run(args: Namespace) -> int:
    """Run `jupyter rlm demo`; return the exit code."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise ConfigurationError(
            "This Python comes without its documentation (pydoc_data), which demo reads."
        ) from None
    from rlm_jupyter.rlm import RLM

    text = "\n\n".join(topics.values())
    terminal.write(f"Question: {DEMO_PROMPT}\nContext: {len(text):,} characters of Python's own documentation\n")
    rlm = RLM(DEFAULT_MODEL, save=save_path(args))
    start = partial(rlm.start, DEMO_PROMPT, text)
    return answered(
        args,
        lambda tell, *, approve: start(on_event=tell, approve=approve),
        rlm.settings.save,
        notebook_on=terminal.write,
    )
