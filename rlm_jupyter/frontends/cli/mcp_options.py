"""The options of `jupyter rlm mcp` that are not those of a run."""

from __future__ import annotations

import argparse

CLIENTS = ("claude", "codex", "cursor", "gemini", "vscode")
"""Agents whose configuration is known."""


def add_mcp_options(parser: argparse.ArgumentParser) -> None:
    """Add them to the command's parser."""
    parser.add_argument(
        "--root",
        action="append",
        default=[],
        metavar="FOLDER",
        help="a folder whose files may be asked about (default: the roots that the client names, else the working "
        "directory)",
    )
    parser.add_argument(
        "--wait",
        type=float,
        metavar="SECONDS",
        help="how long a call waits for its run before it says that it goes on (default: 50)",
    )
    parser.add_argument("--save", metavar="FOLDER", help="where runs are kept (default: rlm_runs/)")
    parser.add_argument("--total-cost", type=float, metavar="USD", help="US dollars that all runs may cost together")
    parser.add_argument("--install", choices=CLIENTS, help="print what this agent's configuration has to say, and end")
    parser.add_argument(
        "--merge", action="store_true", help="with --install: put it into that file, beside what is there"
    )
    # what `run` has, and nobody sets here
    parser.set_defaults(no_save=False, output=None, output_dir=None, replace=False, schema=None)
