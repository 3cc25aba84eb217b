"""`compare`: which of two batches has the better answers."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from dataclasses import asdict

from rlm_jupyter.frontends.cli import ANSWERED, terminal

EXAMPLES = """\
  jupyter rlm compare small-model.jsonl large-model.jsonl
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.add_argument("results", nargs=2, metavar="RESULTS", help="what a batch with --expected has written")
    parser.add_argument("--json", action="store_true", help="print it as JSON, with each item that differs")


def run(args: Namespace) -> int:
    """Run `jupyter rlm compare`; return the exit code."""
    from rlm_jupyter.batch.comparison import compare

    comparison = compare(*args.results)
    if not args.json:
        terminal.write(str(comparison))
        return ANSWERED
    better = [[asdict(pair) for pair in pairs] for pairs in comparison.better]
    data = {
        "results": comparison.names,
        "accuracies": [asdict(its) for its in comparison.accuracies],
        "difference": comparison.gain,
        "interval": comparison.interval,
        "p": comparison.p,
        "items": len(comparison.pairs),
        "unpaired": comparison.unpaired,
        "unscored": comparison.unscored,
        "better_in_first": better[0],
        "better_in_second": better[1],
    }
    terminal.write(json.dumps(data, default=str))
    return ANSWERED
