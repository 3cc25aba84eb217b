"""What starts a kernel's process, or a template of kernels: its command line, and its environment."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import site
import string
import sys
from collections.abc import Mapping
from pathlib import Path

from rlm_jupyter.kernel.directory import not_made
from rlm_jupyter.kernel.guest.confine import SAFE_PATH, VARIABLE
from rlm_jupyter.kernel.sandbox import bwrap
from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted

_GUEST = "rlm_jupyter.kernel.guest"
_NAMES = """
    PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TEMP TMP TERM PYTHONPATH VIRTUAL_ENV CONDA_PREFIX
    LD_LIBRARY_PATH DYLD_LIBRARY_PATH OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS SYSTEMROOT SYSTEMDRIVE
    WINDIR COMSPEC PATHEXT APPDATA LOCALAPPDATA PROGRAMDATA USERPROFILE
"""
PASSED_ON = frozenset(_NAMES.split())
"""What a kernel gets of the host's environment, with `LC_*`: an allow-list, so that no key is ever in it.

`HOME` and the places for temporary files are its own, where tools look for credentials of the user's.
"""


_INSTALLED = {"site-packages", "dist-packages"}
_LARGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Asks for large pages where a block is large, from glibc 2.35 on (its manual, "Memory Allocation Tunables").

A fork copies a page table of 2 MB for each GB that is in small ones, and the kernel stands still meanwhile.
"""


def passed_on() -> dict[str, str]:
    """Return what a kernel gets of this process's environment."""
    return {name: value for name, value in os.environ.items() if name.upper() in PASSED_ON or name.startswith("LC_")}


def guest_command(
    kernel_name: str | None,
    directory: Path,
    sandbox: Sandbox,
    *,
    passed: Mapping[str, str] | None = None,
    template: bool = False,
) -> tuple[list[str], list[str], dict[str, str]]:
    """Return what starts the guest, the arguments of its application, and its environment.

    Parameters
    ----------
    kernel_name
        A kernelspec whose Python is used; default: the interpreter that runs this.
    directory
        Its private directory.
    sandbox
        What shuts it off.
    passed
        What it gets of this process's environment; default: `passed_on()`.
    template
        Start no kernel, but what kernels are forked from.

    Raises
    ------
    ConfigurationError
        There is no such kernelspec, or it is none of Python's.
    """
    env = dict(passed_on() if passed is None else passed) | own_directories(directory, sandbox)
    env |= _LARGE_PAGES | {"PYTHONHASHSEED": "0", SAFE_PATH: "1"}
    argv, arguments = [sys.executable, "-m", _GUEST], ["-f", "{connection_file}"]
    if kernel_name is not None:
        from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel  # takes longer than all of the rest

        try:
            spec = KernelSpecManager().get_kernel_spec(kernel_name)
        except NoSuchKernel:
            known = ", ".join(sorted(KernelSpecManager().find_kernel_specs())) or "none"
            raise ConfigurationError(f"There is no kernelspec {quoted(kernel_name)}. Installed: {known}.") from None
        if spec.language.lower() != "python":
            raise ConfigurationError(
                f"The kernelspec {quoted(kernel_name)} is {spec.language}; the kernel must be Python."
            )
        launcher = next((word for word in spec.argv if word in {"ipykernel_launcher", "ipykernel"}), None)
        if launcher is None:
            raise ConfigurationError(f"The kernelspec {quoted(kernel_name)} does not start ipykernel.")
        at = spec.argv.index(launcher)
        argv, arguments = [*spec.argv[:at], _GUEST], spec.argv[at + 1 :]
        env |= {name: string.Template(value).safe_substitute(os.environ) for name, value in spec.env.items()}
    if kernel_name is not None or sandbox.kind == "bwrap":
        # it may not find this package where we do: show it just our own directory
        library = directory / "lib"
        library.mkdir()
        (library / "rlm_jupyter").symlink_to(Path(__file__).parents[1], target_is_directory=True)
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(library), env.get("PYTHONPATH")]))
    elif (root := Path(__file__).parents[2]).name not in _INSTALLED:  # a checkout, which may be no more than that
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [env.get("PYTHONPATH"), str(root)]))
    env[VARIABLE] = _confined(sandbox, template=template)
    return argv, [*arguments, "--HistoryManager.enabled=False"], env


def own_directories(directory: Path, sandbox: Sandbox) -> dict[str, str]:
    """Make where it keeps files of its own, but inside a sandbox that has places for them, and return what tells it.

    And where it finds the packages that its user has installed.

    Raises
    ------
    KernelStartError
        They can't be made; the text says what to do.
    """
    if sandbox.kind == "bwrap":
        home, tmp = bwrap.HOME, "/tmp"
    else:
        home, tmp = str(directory / "home"), str(directory / "tmp")
        try:
            _make_home(directory)
        except OSError as error:
            raise not_made(directory, error) from error
    if sys.platform == "win32":
        return {"IPYTHONDIR": str(directory / "home" / "ipython")}
    base = site.getuserbase()
    return {"HOME": home, "TMPDIR": tmp, "IPYTHONDIR": f"{home}/.ipython"} | ({"PYTHONUSERBASE": base} if base else {})


def _make_home(directory: Path) -> None:
    for folder in ("home", "tmp"):
        (directory / folder).mkdir(mode=0o700)
    fonts = directory / "home" / ".cache" / "matplotlib"
    for listed in bwrap.font_lists():
        fonts.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):
            shutil.copy(listed, fonts)


def _confined(sandbox: Sandbox, *, template: bool) -> str:
    """Return what the guest is to give up by itself (`guest/confine.py`)."""
    asked = {
        "parent": 0 if sandbox.kind == "bwrap" else os.getpid(),
        "memory": sandbox.memory,
        "processes": process_limit(sandbox),
        "template": template,
    }
    return json.dumps(asked)


def process_limit(sandbox: Sandbox) -> int | None:
    """Return how many processes its user namespace may have; `None` where it has none of its own."""
    return sandbox.processes if sandbox.kind == "bwrap" else None
