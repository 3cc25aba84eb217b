"""The options of `jupyter rlm batch` that are not those of a run."""

from __future__ import annotations

import argparse


def add_batch_options(parser: argparse.ArgumentParser) -> None:
    """Add them to the command's parser."""
    parser.add_argument("items", metavar="ITEMS", help="a file of rows: .jsonl, .csv, .tsv or .parquet")
    parser.add_argument(
        "--prompt", required=True, metavar="TEXT", help='the question, with columns in braces: "Is {text} about food?"'
    )
    parser.add_argument(
        "--out",
        required=True,
        metavar="FILE",
        help="the results: .jsonl, .csv or .parquet; the notebooks of the runs are in FILE.batch/ beside it",
    )
    parser.add_argument(
        "-c",
        "--context",
        metavar="COLUMN",
        help="what it is about: a column, a text with columns in braces, or @ before either: the path of a file",
    )
    parser.add_argument("--key", metavar="COLUMN", help="what names an item in the results (default: a digest)")
    parser.add_argument("--retry", choices=("failed",), help="do those again that came to no answer")
    parser.add_argument(
        "--concurrency", type=int, default=16, metavar="INT", help="runs at once, each with a kernel (default: 16)"
    )
    parser.add_argument("--expected", metavar="COLUMN", help="the column with the right answer: print the accuracy")
    parser.add_argument(
        "--score",
        choices=("exact", "number", "set"),
        default="exact",
        help="how answers are compared with it (default: exact)",
    )
    limits = parser.add_argument_group("limits, for the whole batch")
    limits.add_argument("--batch-max-cost", type=float, metavar="USD", help="US dollars, earlier calls included")
    limits.add_argument("--batch-max-tokens", type=int, metavar="INT", help="tokens, earlier calls included")
    limits.add_argument("--batch-max-seconds", type=float, metavar="SECONDS", help="wall time of this call")
