"""`OPTIONS`: the options of a run, once, for the command line, the magics, their configuration and `docs/options.md`.

A new option is declared here; CONTRIBUTING.md names the places that give it an effect. Long because all of them stand
here.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.limits import Limits

Surface = Literal["cli", "magic", "resume", "fork", "%resume", "config", "batch", "agents"]
"""Where an option is taken: `jupyter rlm run`, `%rlm`, `jupyter rlm resume` and `fork`, `%rlm_resume`, `%config`,
`jupyter rlm batch`, `jupyter rlm mcp`."""
_ALL: frozenset[Surface] = frozenset({"cli", "magic", "resume", "fork", "%resume", "config"})
_SHELL: frozenset[Surface] = frozenset({"cli", "resume", "fork"})
_RUNS: frozenset[Surface] = frozenset({"cli", "magic"})
_MAGIC: frozenset[Surface] = frozenset({"magic"})
_NOT_IN_A_BATCH = frozenset({"session", "ledger", "estimate", "output", "output_dir", "replace"})
"""Options of `jupyter rlm run` that a batch does not take."""
_NOT_FOR_AGENTS = _NOT_IN_A_BATCH | {"schema"}
"""… and that the owner of a server for agents does not set: the agent does, or nobody."""
_OF_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a run."""

    name: str
    """Of the argument's attribute; `max_cost` is `--max-cost`."""
    help: str
    """What it does, as a phrase in small letters, without a stop at its end."""
    kind: type = str
    """Of its value; `bool`: it has none."""
    metavar: str = ""
    default: str = ""
    """What holds where it is left out, as text. With `choices` it is one of them, unless it begins with `$NAME`, a
    variable of the environment."""
    short: str = ""
    """`-m`."""
    repeats: bool = False
    """It may be given several times; the values become a list."""
    choices: tuple[str, ...] = ()
    """Of the command line, and of its trait; in a magic its value is checked where it is used."""
    group: Literal["", "limits", "sandbox"] = ""
    surfaces: frozenset[Surface] = _RUNS
    elsewhere: frozenset[Surface] = frozenset()
    """Where it is taken, too, but declared elsewhere: a trait of another name, or an argument that excludes another."""
    argument: str = ""
    """Of `RLM`, and the trait that configures it, where it isn't `name`."""
    part: Literal["rlm", "limits", "sandbox", "asking"] = "rlm"
    """What it is part of: an argument of `RLM`, a field of `Limits` or `Sandbox`, or of the command that asks."""

    @property
    def keyword(self) -> str:
        """The argument of `RLM`, and the trait that configures it."""
        return self.argument or self.name

    def given(self, args: Namespace) -> Any:
        """Return what was written for it; `None`: it was left out, or the command does not take it."""
        value = getattr(args, self.name, None)
        return None if value is False or value == [] else value

    @property
    def flags(self) -> tuple[str, ...]:
        """`-m`, `--model`."""
        long = f"--{self.name.replace('_', '-')}"
        return (self.short, long) if self.short else (long,)

    def settings(self, surface: Surface) -> dict[str, Any]:
        """Return the arguments of argparse's `add_argument`, but the flags."""
        again = surface in {"resume", "fork", "%resume"} and "config" in self.surfaces
        default = "as before" if again else self.default
        if surface in {"magic", "%resume"}:
            text = f"{self._sentence()}." + (f" Default: {default}." if default else "")
        else:
            text = self.help + (f" (default: {default})" if default else "")
        found: dict[str, Any] = {"help": text.replace("%", "%%")}
        if self.kind is bool:
            return found | {"action": "store_true"}
        if self.choices and surface not in {"magic", "%resume"}:
            return found | {"choices": self.choices}
        found["metavar"] = self.metavar
        if self.repeats:
            named = surface == "magic" and "=" in self.metavar
            return found | {"action": "append"} | ({"default": []} if named else {})
        return found if self.kind is str else found | {"type": self.kind}

    def _sentence(self) -> str:
        """Return the help as a sentence begins; a value that it begins with stays as it is typed."""
        is_value = self.help.startswith(tuple(f"{choice}:" for choice in self.choices))
        return self.help if is_value else f"{self.help[0].upper()}{self.help[1:]}"


def _limit(name: str, text: str, kind: type, metavar: str, surfaces: frozenset[Surface] = _ALL) -> Option:
    value = getattr(_OF_LIMITS, name)
    default = "" if value is None else f"{value:,}".removesuffix(".0")
    return Option(name, text, kind, metavar, default, group="limits", surfaces=surfaces, part="limits")


OPTIONS = (
    Option("model", "provider/model that drives the run", str, "MODEL", "$RLM_MODEL, else extractive", "-m",
           surfaces=_ALL, part="asking"),
    Option("sub_model", "provider/model that answers sub-calls", str, "MODEL", "the model",
           surfaces=_ALL - {"%resume"}),
    Option("base_url", "where the model is served, and a sub-model of the same provider", str, "URL",
           "its usual address", surfaces=_ALL),
    Option("window", "tokens the model reads, with its reply", int, "INT", "as it is served",
           surfaces=_ALL - {"%resume"}),
    Option("option", "a sampling option of the model, as temperature=0.2", str, "NAME=VALUE", repeats=True,
           surfaces=_RUNS | _SHELL, elsewhere=frozenset({"config"}), argument="model_options"),
    Option("sub_option", "a sampling option of the model for sub-calls", str, "NAME=VALUE", repeats=True,
           surfaces=_RUNS | _SHELL, elsewhere=frozenset({"config"}), argument="sub_model_options"),
    Option("system_extra", "a paragraph to add to the system message", str, "TEXT", elsewhere=frozenset({"config"}),
           argument="system_prompt_extra"),
    Option("termination", "when the run ends: a policy's name, package.module:Class, JSON with name and config, or in "
           "a notebook a variable that holds one", str, "POLICY", "declared", surfaces=_ALL - {"%resume"}),
    Option("reward", "how iterations are rated: a policy, named likewise", str, "POLICY", "default",
           surfaces=_ALL - {"%resume"}),
    Option("samples", "runs of the question, each in a kernel of its own; the answer is the one that most give", int,
           "INT", "1", surfaces=_RUNS | {"config"}),
    Option("require_agreement", "without agreement of the samples there is no answer", bool,
           surfaces=_RUNS | {"config"}),
    Option("strategy", "loop: work in a kernel; auto: where the whole text fits the window, ask directly first", str,
           "STRATEGY", "loop", choices=("loop", "auto"), surfaces=_RUNS | {"config"}),
    Option("compact_at", "share of the model's window beyond which older iterations are summarized; 0: never", float,
           "SHARE", "0.8", surfaces=_ALL),
    Option("session", "ask in the session of this name: the kernel, and the record, of the prompts before", str, "NAME",
           "none", part="asking"),
    Option("ledger", "what limits of a session hold for: each prompt, or the session as a whole", str, "WHAT", "prompt",
           choices=("prompt", "session"), part="asking"),
    Option("see_figures", "show the model what its cells draw; auto: where it is known to see", str, "WHEN", "auto",
           choices=("auto", "always", "never"), surfaces=_ALL - {"%resume"}),
    Option("answer", "what the answer must be: a type of the notebook, as Invoice or list[str]", str, "TYPE", "a text",
           surfaces=_MAGIC),
    Option("schema", "a JSON schema that the answer must keep", str, "FILE.json", "none",
           argument="answer"),
    Option("output", "a file that the run is to make", str, "NAME", "none", repeats=True, argument="outputs"),
    Option("output_dir", "the folder for such files", str, "FOLDER", "the run's so far, else the working directory",
           surfaces=_ALL - {"config"}),
    Option("replace", "replace files of those names that are there", bool, surfaces=_ALL - {"config"}),
    Option("tool", "a function that the model's code may call: its name in the notebook, or package.module:function",
           str, "FUNCTION", "none", repeats=True, surfaces=_ALL - {"config"}, argument="tools"),
    Option("sub_tool", "a function that children (rlm_query) may call, named likewise", str, "FUNCTION", "none",
           repeats=True, surfaces=_ALL - {"config"}, argument="sub_tools"),
    Option("mcp", "a server of the Model Context Protocol whose tools the model's code may call: its name in .mcp.json",
           str, "NAME", "none", repeats=True, surfaces=_ALL - {"config"}),
    _limit("max_iterations", "replies of the model", int, "INT"),
    _limit("max_seconds", "wall time", float, "SECONDS"),
    _limit("max_cost", "US dollars, as 0.50", float, "USD"),
    _limit("max_tokens", "tokens, read and written", int, "INT"),
    _limit("max_subcalls", "prompts that cells may ask", int, "INT"),
    _limit("max_tool_calls", "calls of tools", int, "INT", _ALL - {"%resume"}),
    _limit("max_answer_errors", "answers of another form than asked for, before the run ends", int, "INT"),
    _limit("max_depth", "depth at which rlm_query becomes a plain call", int, "INT", _ALL - {"%resume"}),
    _limit("request_idle_seconds", "silence of a provider after which a request is given up", float, "SECONDS",
           _ALL - {"%resume"}),
    Option("price", "what a model costs, in US dollars for a million tokens", str, "MODEL=IN,OUT[,CACHED]",
           "its list price", repeats=True, group="limits", surfaces=_SHELL, elsewhere=frozenset({"config"}),
           argument="prices"),
    Option("sandbox", "bwrap: no network, none of your files (Linux, bubblewrap); docker, podman: the same in a "
           "container; none: your rights; auto: bwrap where it works, else none", str, "KIND",
           "$RLM_SANDBOX, else auto", choices=("auto", "bwrap", "docker", "podman", "none"), group="sandbox",
           surfaces=_ALL - {"%resume"}, part="sandbox"),
    Option("container_image", "the image for --sandbox docker or podman: Python 3.11 or newer, with ipykernel", str,
           "IMAGE", "rlm-kernel", group="sandbox", surfaces=_RUNS | {"config"}, part="sandbox"),
    Option("read", "a folder or file that the sandbox shows, read-only", str, "PATH", repeats=True, group="sandbox",
           surfaces=_RUNS | {"config"}, part="sandbox"),
    Option("write", "a folder or file that code in the sandbox may change", str, "PATH", repeats=True, group="sandbox",
           surfaces=_RUNS | {"config"}, part="sandbox"),
    Option("insurance", "keep a copy of the kernel after each cell, which goes on when it dies (Linux)", bool,
           surfaces=_RUNS | {"config"}),
    Option("preload", "a module that kernels have imported from the start, as pandas (Linux)", str, "MODULE",
           repeats=True, surfaces=_RUNS | {"config"}),
    Option("kernel_url", "a Jupyter server on which the model's code runs, as https://hub.example/user/me", str, "URL",
           "this machine", surfaces=_ALL - {"config"}, elsewhere=frozenset({"config"}), argument="kernel"),
    Option("kernel_token_env", "the variable of the environment that holds that server's token", str, "NAME",
           "JUPYTER_TOKEN", surfaces=_ALL - {"config"}, argument="token"),
    Option("estimate", "say what it may cost, and ask no model", bool, part="asking"),
    Option("save", "the run's notebook, or a folder/ for it", str, "PATH", "rlm_runs/", surfaces=_MAGIC | {"config"},
           elsewhere=frozenset({"cli", "fork"}), part="asking"),
    Option("result", "the result's variable", str, "VAR", "rlm_result", "-o", surfaces=_MAGIC | {"%resume"},
           part="asking"),
    Option("rerun", "ask anew, though the same was asked before", bool, surfaces=_MAGIC, part="asking"),
    Option("approve", "let each cell wait: run, edit or refuse it, or undo the one before", bool, surfaces=_MAGIC,
           part="asking"),
    Option("here", "let the model drive this notebook's own kernel: no sandbox", bool, surfaces=_MAGIC, part="asking"),
    Option("background", "return at once; the result's variable is set in the end", bool, surfaces=_MAGIC,
           part="asking"),
)  # fmt: skip


def options_of(surface: Surface) -> Iterator[Option]:
    """Yield the options that are taken there, in their order."""
    if surface == "batch":
        return (option for option in options_of("cli") if option.name not in _NOT_IN_A_BATCH)
    if surface == "agents":
        return (option for option in options_of("cli") if option.name not in _NOT_FOR_AGENTS)
    return (option for option in OPTIONS if surface in option.surfaces)


def changes(surface: Surface, args: Namespace, read: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    """Return what a command's options change of a run, as arguments of `RLM` and fields of `Limits`.

    Parameters
    ----------
    args
        As parsed.
    read
        What makes an argument of what was written, by the option's name; without one it is that.

    Returns
    -------
    dict
        `None` for an option that was left out.
    """
    return {option.keyword: _argument(option, args, read) for option in options_of(surface)}


def arguments(surface: Surface, args: Namespace, read: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    """Return the arguments of `RLM` that a command was given; what was left out has its default there.

    Parameters
    ----------
    args, read
        As for `changes`.
    """
    own = [option for option in options_of(surface) if option.part == "rlm"]
    found = {option.keyword: _argument(option, args, read) for option in own if option.given(args) is not None}
    return {name: value for name, value in found.items() if value is not None}


def _argument(option: Option, args: Namespace, read: Mapping[str, Callable[[Any], Any]]) -> Any:
    value = option.given(args)
    return read[option.name](value) if value is not None and option.name in read else value


def add_arguments(surface: Surface, groups: dict[str, Callable[..., object]]) -> None:
    """Add the options of a command to its parser.

    Parameters
    ----------
    groups
        `add_argument` of the parser (`""`), and of the groups for `limits` and `sandbox`.
    """
    for option in options_of(surface):
        groups[option.group](*option.flags, **option.settings(surface))


def magic(surface: Surface) -> Callable[[Any], Any]:
    """Return a decorator that gives a magic its options, as IPython's `argument` gives it one."""
    from IPython.core.magic_arguments import argument

    def decorate(function: Any) -> Any:
        for option in reversed(list(options_of(surface))):
            settings = option.settings(surface)
            if option.name == "result":
                settings["default"] = option.default
            function = argument(*option.flags, **settings)(function)  # type: ignore[no-untyped-call]
        return function

    return decorate


def help_of(name: str) -> str:
    """Return what an option does, as a sentence: the help of the trait that configures it."""
    [option] = [option for option in OPTIONS if option.name == name]
    return str(option.settings("magic")["help"]).replace("%%", "%")


_COLUMNS: tuple[tuple[Surface, ...], ...] = (("cli",), ("magic",), ("resume", "fork"), ("%resume",), ("config",))


def _mark(option: Option, surfaces: tuple[Surface, ...]) -> str:
    """Return `✓`; the one command of two that takes it; the trait's name, where that is another."""
    taken = [surface for surface in surfaces if surface in option.surfaces | option.elsewhere]
    if taken == ["config"] and option.argument:
        return f"`{option.argument}`"
    return "" if not taken else "✓" if len(taken) == len(surfaces) else f"`{taken[0]}`"


def as_markdown() -> str:
    """Return the table of all options that `docs/options.md` holds."""
    lines = [
        "| option | what it does | default | `run` | `%rlm` | `resume`, `fork` | `%rlm_resume` | `%config` |",
        "|---|---|---|:-:|:-:|:-:|:-:|:-:|",
    ]
    for option in OPTIONS:
        shown = [f"`{flag}`" for flag in option.flags]
        shown[-1] = shown[-1] if option.kind is bool else f"`{option.flags[-1]} {option.metavar}`"
        taken = [_mark(option, surfaces) for surfaces in _COLUMNS]
        cells = [", ".join(shown), option.help, option.default, *taken]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def image_of(image: str | None, kind: str | None) -> dict[str, str]:
    """Return the image that was named for containers, as a field of the sandbox; nothing where none was.

    Raises
    ------
    ConfigurationError
        The kernel will be in no container.
    """
    if image is None:
        return {}
    if (kind or os.environ.get("RLM_SANDBOX")) not in {"docker", "podman"}:
        raise ConfigurationError(f"--container-image {image} needs a container: add --sandbox docker or podman.")
    return {"image": image}
