"""`doctor`: what works here, a line each, and what to do where it does not."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from rlm_jupyter.frontends.cli import ANSWERED, FAILED, terminal
from rlm_jupyter.types.errors import RLMError

EXAMPLES = """\
  jupyter rlm doctor
"""
State = Literal["ok", "note", "fail"]
_PACKAGES = ("ipykernel", "ipython", "jupyter_client", "anthropic", "openai")
_EXTRAS = {"files": "pptx", "images": "pypdfium2", "mcp": "mcp"}
"""Extras of this package, and a module that hardly anything else brings."""
_EXTENSION = "rlm-jupyter"
_KERNEL_SECONDS = 60
_LINE_CHARS = 300


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    state: State
    """`fail`: runs need it. `note`: they go without."""
    what: str
    do: str = ""
    """What to do about it."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: Namespace) -> int:
    """Run `jupyter rlm doctor`; return the exit code: 1 where something is missing that runs need."""
    checks: tuple[Callable[[], Iterator[Check]], ...] = (_versions, _kernel, _sandbox, _models, _keys, _lab, _folder)
    with ThreadPoolExecutor(len(checks)) as pool:
        found = [check for made in pool.map(lambda look: [*look()], checks) for check in made]
    if args.json:
        terminal.write(json.dumps([asdict(check) for check in found]))
    else:
        width = max(len(check.name) for check in found)
        for check in found:
            do = f" To do: {check.do}" if check.do else ""
            said = terminal.one_line(f"{check.what}{do}", _LINE_CHARS)
            terminal.write(f"{check.state:4}  {check.name:{width}}  {said}")
    return FAILED if any(check.state == "fail" for check in found) else ANSWERED


def _versions() -> Iterator[Check]:
    known = ", ".join(f"{name} {version(name)}" for name in ("rlm_jupyter", *_PACKAGES))
    yield Check("versions", "ok", f"Python {platform.python_version()}, {known}.")
    missing = [extra for extra, module in _EXTRAS.items() if importlib.util.find_spec(module) is None]
    if missing:
        yield Check(
            "extras", "note", f"without {', '.join(missing)}.", f"pip install 'rlm_jupyter[{','.join(missing)}]'"
        )
    else:
        yield Check("extras", "ok", f"{', '.join(_EXTRAS)}.")


def _kernel() -> Iterator[Check]:
    """Start a kernel, and let the embedded model work in it."""
    from rlm_jupyter.kernel.template_pool import expect_no_next_run
    from rlm_jupyter.rlm import RLM
    from rlm_jupyter.types.limits import Limits

    expect_no_next_run()
    try:
        rlm = RLM("extractive", save=False, limits=Limits(max_seconds=_KERNEL_SECONDS))
        result = rlm.completion("Which colour has the house?", "The house is red. The tree is green.")
    except RLMError as error:
        yield Check("kernel", "fail", f"{error}", f"see whether this works: {sys.executable} -m ipykernel --version")
        return
    if result.answer is None:
        yield Check("kernel", "fail", f"a run ended without an answer: {result.message or result.stop_reason}.")
    else:
        yield Check("kernel", "ok", f"a run in a kernel of its own took {result.seconds:.1f} s.")


def _sandbox() -> Iterator[Check]:
    from rlm_jupyter.kernel.sandbox import bwrap

    if (why := bwrap.why_not()) is None:
        yield Check("sandbox", "ok", "bubblewrap: the model's code sees neither your files nor the network.")
    else:
        yield Check(
            "sandbox", "note", f"none, the model's code has your rights: {why}",
            "--sandbox docker or podman for documents that you do not trust.",
        )  # fmt: skip
    yield from _containers()


def _containers() -> Iterator[Check]:
    """Say whether kernels can be started in containers, by each client that is installed."""
    import shutil

    from rlm_jupyter.kernel.sandbox import container

    for kind in ("docker", "podman"):
        if shutil.which(kind) is None:
            continue
        why = container.why_not(kind, container.IMAGE)
        if why is None:
            yield Check(kind, "ok", f"there is the image {container.IMAGE}: --sandbox {kind}.")
        else:
            yield Check(kind, "note", f"{why[0].upper()}{why[1:]}")


def _models() -> Iterator[Check]:
    from rlm_jupyter.models import PROVIDERS, discovery, load_model

    name = os.environ.get("RLM_MODEL", "").strip()
    if name:
        try:
            load_model(name)
        except RLMError as error:
            yield Check("model", "fail", f"RLM_MODEL: {error.for_command_line}")
        else:
            yield Check("model", "ok", f"RLM_MODEL is {name}.")
    servers = [there for there in discovery.nearby() if there.names]
    for there in servers:
        yield Check("server", "ok", f"{there.preset.title} serves {discovery.listed(there.server.models)}.")
    has_key = any(_keys_of(preset.key_variables) for preset in PROVIDERS.values())
    if not (name or servers or has_key):
        yield Check(
            "model", "fail", "no key and no server of your own: only the embedded picker of passages answers.",
            "set the key of a provider, such as ANTHROPIC_API_KEY, or start a server, such as Ollama.",
        )  # fmt: skip


def _keys() -> Iterator[Check]:
    from rlm_jupyter.models import PROVIDERS

    found = [key for preset in PROVIDERS.values() for key in _keys_of(preset.key_variables)]
    if found:
        yield Check("keys", "ok", f"{', '.join(dict.fromkeys(found))} (not shown, and not tried).")
    else:
        yield Check("keys", "note", "none in the environment.")


def _keys_of(variables: tuple[str, ...]) -> list[str]:
    return [variable for variable in variables if os.environ.get(variable, "").strip()]


def _lab() -> Iterator[Check]:
    from jupyter_core.paths import jupyter_path

    from rlm_jupyter.frontends.live.versions import too_old

    try:
        lab = version("jupyterlab")
    except PackageNotFoundError:
        yield Check("lab", "note", "JupyterLab is not installed beside this.")
        return
    again = "pip install --force-reinstall --no-deps rlm_jupyter"
    folders = [Path(folder) / _EXTENSION for folder in jupyter_path("labextensions")]
    manifest = next((folder / "package.json" for folder in folders if (folder / "package.json").is_file()), None)
    if old := too_old():
        yield Check("lab", "note", old)
    elif manifest is None:
        yield Check("lab", "fail", f"JupyterLab {lab} has not got the extension {_EXTENSION}.", again)
    elif (its := json.loads(manifest.read_text(encoding="utf-8")).get("version")) != version("rlm_jupyter"):
        yield Check("lab", "fail", f"the extension is {its}, the package {version('rlm_jupyter')}.", again)
    else:
        yield Check("lab", "ok", f"JupyterLab {lab}, extension {its}.")


def _folder() -> Iterator[Check]:
    from rlm_jupyter.record.store import FOLDER, check_save_path

    folder = Path(FOLDER).absolute()
    try:
        check_save_path(f"{folder}/")
    except RLMError as error:
        yield Check("runs", "fail", f"{error}", "work in a folder that you may write to, or name one by --save.")
    else:
        yield Check("runs", "ok", f"are kept in {folder}.")
