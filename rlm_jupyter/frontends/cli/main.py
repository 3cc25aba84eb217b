"""The command line: `jupyter rlm run`, `batch`, `compare`, `demo`, `resume`, `fork`, `replay`, `mcp`, `list`, ….

Long because the parsers and the help of all commands stand here; what a command does is imported when it is called.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NoReturn

from rlm_jupyter.frontends.cli import FAILED, INTERRUPTED, MISUSED, terminal
from rlm_jupyter.frontends.run_options import Surface, add_arguments
from rlm_jupyter.types.errors import ConfigurationError, RLMError

_EXIT_CODES = """\
exit codes:
  0    answered (for list, show, export, clean, mcp: done; for replay: the same came out; for doctor: all works)
  1    ended without an answer of the kind that was asked for, or failed; the best answer so far is printed, if there is
       one (replay: something else came out)
  2    nothing was started or spent: wrong usage or configuration, no such run, or a model's own server is not there
  130  interrupted; the best answer so far is printed likewise
"""
_BY_SCHEMA = ": --answer names a type of a notebook; here the form of an answer is a JSON schema, --schema FILE.json"
_EXAMPLES = """\
examples:
  jupyter rlm demo
  jupyter rlm run "Which tickets lost data?" --context tickets.csv -m anthropic/claude-sonnet-5
  jupyter rlm run "What is the licence of each part?" --context . --max-cost 0.50
  jupyter rlm list

"""
_RUN_EXAMPLES = """\
examples:
  jupyter rlm run "Who signed last?" --context contract.pdf -m openai/gpt-5.4-mini
  jupyter rlm run "Where is the retry logic?" --context src 'docs/**/*.md' -m ollama/qwen3:8b
  zcat app.log.gz | jupyter rlm run "What failed first?" --max-seconds 120
  jupyter rlm run "How many orders are open?" --context orders.parquet --json | jq .value

"""


_BATCH_EXAMPLES = """\
examples:
  jupyter rlm batch reviews.csv --prompt "Is {text} about food? yes or no" --out results.csv -m openai/gpt-5.4-mini
  jupyter rlm batch contracts.jsonl --prompt "Who signed last?" --context @file --schema signer.json --out out.parquet
  jupyter rlm batch questions.jsonl --prompt "{question}" --context text --expected answer --out results.jsonl
  jupyter rlm batch questions.jsonl --prompt "{question}" --context text --out results.jsonl --retry failed

"""
_COMPARE_EXAMPLES = """\
examples:
  jupyter rlm compare small-model.jsonl large-model.jsonl

"""
_RESUME_EXAMPLES = """\
examples:
  jupyter rlm resume
  jupyter rlm resume rlm_runs/20250102-101500-who.ipynb --max-cost 2 --yes

"""
_FORK_EXAMPLES = """\
examples:
  jupyter rlm fork 20250102-101500-who --at 3 -m openai/gpt-5
  jupyter rlm fork rlm_runs/20250102-101500-who.ipynb --edit

"""
_MODELS_EXAMPLES = """\
examples:
  jupyter rlm models
  jupyter rlm models ollama
  jupyter rlm models llamacpp --base-url http://192.168.1.5:8080/v1

"""
_DOCTOR_EXAMPLES = """\
examples:
  jupyter rlm doctor

"""
_MCP_EXAMPLES = """\
examples:
  jupyter rlm mcp --install claude -m anthropic/claude-sonnet-5 --max-cost 0.50
  jupyter rlm mcp --install codex --merge -m openai/gpt-5.4-mini --total-cost 5
  jupyter rlm mcp -m ollama/qwen3:8b --root ~/papers

"""
_EXPORT_EXAMPLES = """\
examples:
  jupyter rlm export
  jupyter rlm export 20250102-101500-who --to html
  jupyter rlm export rlm_runs/20250102-101500-who.ipynb --output for-review.ipynb
  jupyter rlm export results.jsonl --to sft --where "score >= 1"

"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    argv
        The arguments; those of the process when left out.

    Returns
    -------
    int
        The exit code; `jupyter rlm --help` lists what they mean.
    """
    terminal.settle_streams()
    try:
        args = parsed(sys.argv[1:] if argv is None else argv)
        with _Terminated():
            code = _command(args)
        sys.stdout.flush()
    except RLMError as error:
        code = MISUSED if isinstance(error, ConfigurationError) else FAILED
        _complain(f"jupyter rlm: {terminal.one_line(error.for_command_line, 2_000)}")
    except SystemExit as end:
        code = int(end.code or 0)  # of --help, --version, and what the parser refuses
    except KeyboardInterrupt:
        # a third one would only bring a traceback out of the last clearing up
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        code = INTERRUPTED
        _complain("Interrupted.")
    except BrokenPipeError:
        code = FAILED
    except OSError as error:
        code = FAILED
        _complain(f"jupyter rlm: {error.strerror or error}{f': {error.filename}' if error.filename else ''}")
    terminal.drop_streams()
    return code


def parsed(argv: Sequence[str]) -> argparse.Namespace:
    """Return the options and arguments of a command, and in `given` the words themselves.

    Raises
    ------
    SystemExit
        They are wrong, and that was said; or it was help that was asked for.
    """
    args = _parser().parse_args(argv)
    args.given = [*argv]
    return args


def _command(args: argparse.Namespace) -> int:
    """Call what was asked for; only this loads it."""
    match args.command:
        case "run" | "demo":
            from rlm_jupyter.frontends.cli.run import demo, run

            return run(args) if args.command == "run" else demo(args)
        case "batch" | "compare":
            from rlm_jupyter.frontends.cli.batch import batch, compare

            return batch(args) if args.command == "batch" else compare(args)
        case "resume" | "fork" | "replay":
            from rlm_jupyter.frontends.cli.resume import fork, replay, resume

            return {"resume": resume, "fork": fork, "replay": replay}[args.command](args)
        case "models" | "doctor":
            from rlm_jupyter.frontends.cli.doctor import doctor
            from rlm_jupyter.frontends.cli.models import models

            return models(args) if args.command == "models" else doctor(args)
        case "mcp":
            from rlm_jupyter.frontends.cli.mcp import mcp

            return mcp(args)
        case "list" | "show" | "export" | "clean":
            from rlm_jupyter.frontends.cli import runs

            commands = {"list": runs.list_runs, "show": runs.show, "export": runs.export, "clean": runs.clean}
            return commands[args.command](args)
        case _:
            raise ConfigurationError(
                "A command is missing: run, batch, compare, demo, models, resume, fork, replay, mcp, doctor, list, "
                "show, export or clean (see jupyter rlm --help)."
            )


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):  # nobody may be left to read it
        terminal.say(text)


class _Terminated:
    """Treats SIGTERM and a terminal that is closed as Ctrl-C: the kernel and the bill end with the command."""

    def __enter__(self) -> None:
        self._before: dict[int, Any] = {}
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            # what `nohup` had ignored stays so
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                self._before[number] = signal.signal(number, self._interrupt)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @staticmethod
    def _interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        from rlm_jupyter.frontends.options import close_option, plainly

        # an unknown option comes back to the parser of all commands, which has no options of theirs
        commands = next((a.choices for a in self._actions if isinstance(a, argparse._SubParsersAction)), {})
        command = next((commands[word] for word in sys.argv[1:] if word in commands), self)
        # a type of a notebook's is named in notebooks alone
        hint = close_option(message, [*command._option_string_actions, "--answer"])
        hint = _BY_SCHEMA if "--answer?" in hint else hint
        is_question = message.startswith("unrecognized arguments") and not re.search(r" --?[a-z]", message)
        if not hint and command.prog.endswith(" run") and is_question:
            hint = ': the question is one argument, in quotes, and files are named by --context ("…" --context PATH)'
        self.exit(MISUSED, f"{self.prog}: {plainly(message)}{hint} (see {command.prog} --help)\n")


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        terminal.write(f"rlm_jupyter {version('rlm_jupyter')}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    shape = argparse.RawDescriptionHelpFormatter
    parser = _Parser(
        prog="jupyter rlm",
        description="Ask a question of more text than a model can read, and get the notebook that answers it.",
        epilog=_EXAMPLES + _EXIT_CODES,
        formatter_class=shape,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands: Any = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    def command(name: str, does: str, more: str = "") -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = commands.add_parser(
            name,
            help=does,
            description=f"{does[0].upper()}{does[1:]}.",
            epilog=more + _EXIT_CODES,
            formatter_class=shape,
            allow_abbrev=False,
        )
        return added

    _add_run(command("run", "answer a question about files", _RUN_EXAMPLES))
    _add_batch(command("batch", "ask one question about each of many items", _BATCH_EXAMPLES))
    _add_compare(command("compare", "tell which of two batches has the better answers", _COMPARE_EXAMPLES))
    demo = command(
        "demo",
        "answer a question about Python's own documentation, without a model, a key or a network",
        "examples:\n  jupyter rlm demo\n  jupyter rlm demo --no-save\n\n",
    )
    _add_common(demo)
    _add_models(command("models", "list the models that are served", _MODELS_EXAMPLES))
    _add_resume(command("resume", "continue a run that was interrupted, or that met a limit", _RESUME_EXAMPLES))
    _add_fork(command("fork", "begin a new run with the first iterations of another", _FORK_EXAMPLES))
    replay = command(
        "replay",
        "execute a run again without any model, and compare what comes out",
        "examples:\n  jupyter rlm replay rlm_runs/20250102-101500-who.ipynb --yes\n\n",
    )
    _add_replay(replay)
    _add_mcp(command("mcp", "let another agent ask: a server of the Model Context Protocol", _MCP_EXAMPLES))
    doctor = command("doctor", "say what works here, and what to do where it does not", _DOCTOR_EXAMPLES)
    doctor.add_argument("--json", action="store_true", help="print it as JSON")
    listing = command("list", "list the runs that are kept", "examples:\n  jupyter rlm list\n\n")
    listing.add_argument("folder", nargs="?", metavar="FOLDER", help="where they are (default: rlm_runs)")
    _add_show(
        command(
            "show",
            "show a run: its answer, its iterations, their code and outputs",
            "examples:\n  jupyter rlm show\n  jupyter rlm show rlm_runs/20250102-101500-who.ipynb\n\n",
        )
    )
    _add_export(command("export", "write runs as one file, without keys and home folders", _EXPORT_EXAMPLES))
    _add_clean(
        command("clean", "delete runs that have ended", "examples:\n  jupyter rlm clean --older-than 30 --yes\n\n")
    )
    return parser


def _add_models(listed: argparse.ArgumentParser) -> None:
    listed.add_argument(
        "provider", nargs="?", metavar="PROVIDER", help="one only (default: your own servers, and all with a key)"
    )
    listed.add_argument("--base-url", metavar="URL", help="where it is")
    listed.add_argument("--json", action="store_true", help="print them as JSON")


def _add_replay(replay: argparse.ArgumentParser) -> None:
    replay.add_argument("run", nargs="?", metavar="RUN", help="name, id or path of a run (default: the newest)")
    _add_again(replay)
    replay.add_argument("--sandbox", choices=("auto", "bwrap", "none"), help="as for run (default: as before)")
    replay.add_argument(
        "--kernel-url", metavar="URL", help="as for run; local: this machine (default: not on a server)"
    )
    replay.add_argument("--kernel-token-env", metavar="NAME", help="as for run (default: JUPYTER_TOKEN)")
    replay.set_defaults(no_reexec=False)


def _add_run(run: argparse.ArgumentParser) -> None:
    run.add_argument("prompt", nargs="?", metavar="QUESTION", help="what to answer")
    run.add_argument(
        "-c",
        "--context",
        nargs="+",
        action="extend",
        metavar="PATH",
        help="what it is about: files (text, csv, json, parquet, pdf, docx, xlsx, pptx, html, ipynb, zip, png, jpg; "
        ".gz too), folders, patterns, or - for standard input (default: what is piped in)",
    )
    _add_options(run, "cli")
    run.add_argument("--json", action="store_true", help="print one JSON object instead of the answer alone")
    run.add_argument(
        "-y", "--yes", action="store_true", help="do not ask whether cells of a session may be executed again"
    )
    run.set_defaults(no_reexec=False)
    _add_common(run)


def _add_compare(compare: argparse.ArgumentParser) -> None:
    compare.add_argument("results", nargs=2, metavar="RESULTS", help="what a batch with --expected has written")
    compare.add_argument("--json", action="store_true", help="print it as JSON, with each item that differs")


def _add_batch(batch: argparse.ArgumentParser) -> None:
    from rlm_jupyter.frontends.cli.batch_options import add_batch_options

    add_batch_options(batch)
    _add_options(batch, "batch")
    batch.add_argument("-q", "--quiet", action="store_true", help="no progress on standard error")
    batch.set_defaults(json=False, no_save=True, save=None, output=None, output_dir=None, replace=False)


def _add_mcp(parser: argparse.ArgumentParser) -> None:
    from rlm_jupyter.frontends.cli.mcp_options import add_mcp_options

    add_mcp_options(parser)
    _add_options(parser, "agents")


def _add_options(parser: argparse.ArgumentParser, surface: Surface) -> None:
    whose = "each run" if surface in {"batch", "agents"} else "the run"
    limits = parser.add_argument_group(f"limits, for {whose} and all its sub-calls")
    groups: dict[str, Callable[..., object]] = {"": parser.add_argument, "limits": limits.add_argument}
    groups["sandbox"] = parser.add_argument_group("what the model's code is kept in").add_argument
    add_arguments(surface, groups)


def _add_resume(resume: argparse.ArgumentParser) -> None:
    _add_going_on(resume, "resume")
    resume.set_defaults(no_save=False, save=None)


def _add_fork(fork: argparse.ArgumentParser) -> None:
    fork.add_argument(
        "--at", type=int, metavar="INT", help="how many iterations the new run takes over (default: all but the last)"
    )
    fork.add_argument(
        "--edit", action="store_true", help="take the cells as you edited and saved them, and go on from the first"
    )
    _add_going_on(fork, "fork")
    fork.add_argument("--save", metavar="PATH", help="the new run's notebook, or a folder/ for it (default: rlm_runs/)")
    fork.set_defaults(no_save=False)


def _add_going_on(parser: argparse.ArgumentParser, surface: Surface) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help="name, id or path of a run (default: the newest)")
    _add_options(parser, surface)
    parser.add_argument("--no-reexec", action="store_true", help="do not execute its cells again: the kernel is empty")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the answer alone")
    _add_again(parser)


def _add_again(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask whether cells may be executed again")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress on standard error")


def _add_common(parser: argparse.ArgumentParser) -> None:
    saving = parser.add_mutually_exclusive_group()
    saving.add_argument("--save", metavar="PATH", help="the run's notebook, or a folder/ for it (default: rlm_runs/)")
    saving.add_argument("--no-save", action="store_true", help="keep no notebook")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress on standard error")
    parser.set_defaults(json=False)


def _add_show(show: argparse.ArgumentParser) -> None:
    show.add_argument("run", nargs="?", metavar="RUN", help="name, id or path of a run (default: the newest)")


def _add_export(export: argparse.ArgumentParser) -> None:
    export.add_argument(
        "run",
        nargs="?",
        metavar="RUN",
        help="name, id or path of a run, or results of a batch (default: the newest run)",
    )
    export.add_argument(
        "--to",
        choices=("ipynb", "html", "jsonl", "otel", "atif", "verifiers", "sft"),
        help="ipynb: a notebook with all that is needed to run it again; html: a page; jsonl: for the visualizer of "
        "the reference implementation; otel: a trace of OpenTelemetry, sent where OTEL_EXPORTER_OTLP_ENDPOINT is set; "
        "atif, verifiers, sft: training data (default: what --output ends in, else ipynb; of results, sft)",
    )
    export.add_argument(
        "--where", metavar="CONDITION", help='of results, only runs whose columns meet this, such as "score >= 1"'
    )
    export.add_argument(
        "-o", "--output", metavar="PATH", help="the file, a folder for it, or - for standard output (default: here)"
    )
    export.add_argument("--replace", action="store_true", help="replace the file that is named, where it exists")
    export.add_argument(
        "--redact",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="take out API keys, home folders and user names (default: yes)",
    )


def _add_clean(clean: argparse.ArgumentParser) -> None:
    clean.add_argument("folder", nargs="?", metavar="FOLDER", help="where they are (default: rlm_runs)")
    clean.add_argument("--older-than", type=float, default=0.0, metavar="DAYS", help="only those that ended before")
    clean.add_argument("-y", "--yes", action="store_true", help="do not ask")


if __name__ == "__main__":
    sys.exit(main())
