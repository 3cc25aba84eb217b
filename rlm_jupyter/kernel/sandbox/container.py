"""The command line of docker and podman: what a kernel in a container sees, and whether one can be had here.

An image brings Python and its packages, nothing is mounted but the folders that were named, and there is no network:
the kernel talks to its host through the client's standard input and output (`kernel/container_process.py`), which also
reaches a container in a virtual machine, as on macOS and Windows.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from rlm_jupyter.kernel.directory import places_in

IMAGE = "rlm-kernel"
"""The image where none is named; it is built by whoever wants one, and never fetched."""
LABEL = "rlm_jupyter.kernel"
HOME, WORK = "/tmp/home", "/tmp/work"
"""Made by the guest; `/tmp` is all that can be written to."""
RECIPE = "printf 'FROM python:3.13-slim\\nRUN pip install ipykernel pandas\\n' | {kind} build -t rlm-kernel -"
_NOBODY = 65_534
_LOOK_SECONDS = 30
_LINE_CHARS = 300
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")
"""Clients put these into containers by themselves, with the passwords that stand in them."""


class Contained(Protocol):
    """What a sandbox says of a container (`sandbox.Sandbox`)."""

    @property
    def kind(self) -> str:
        """`docker` or `podman`."""

    @property
    def image(self) -> str:
        """The image."""

    @property
    def memory(self) -> int | None:
        """Bytes of data that each process may hold."""

    @property
    def disk(self) -> int:
        """Bytes of `/tmp`, and of `/dev/shm`."""

    @property
    def processes(self) -> int:
        """Processes and threads at once."""

    def folders(self) -> Iterator[tuple[Path, bool]]:
        """Return the folders and files that are shown, and whether code may change them."""


def why_not(kind: str, image: str) -> str | None:
    """Return why no kernel can be started from this image, as sentences that say what to do; `None` when it can.

    Whether Python and ipykernel are in the image shows when a kernel is started, still before a model is asked.
    """
    if shutil.which(kind) is None:
        return f"{kind} is not installed, or not in PATH."
    try:
        looked = subprocess.run(
            [kind, "image", "inspect", "--format", "{{.Id}}", image],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_LOOK_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{kind} did not answer within {_LOOK_SECONDS} s. Start what it talks to, its daemon or machine."
    except OSError as error:
        return f"{kind} can't be run: {error.strerror or error}."
    if looked.returncode == 0:
        return None
    said = (looked.stderr.strip().splitlines() or [f"exit code {looked.returncode}"])[-1]
    if "no such" not in said.lower() and "not known" not in said:
        said = said[:_LINE_CHARS]
        stop = "" if said.endswith((".", "?")) else "."
        return f"{kind} can't be used: {said}{stop} Start what it talks to, its daemon or machine."
    how = f"Build it: {RECIPE.format(kind=kind)}" if image == IMAGE else "Build or pull it; none is fetched by a run."
    return f"there is no image {image}. {how}"


def command(sandbox: Contained, name: str, cwd: Path | None, boot: str) -> list[str]:
    """Return what starts a container whose Python executes `boot`, and which is removed as it ends.

    Parameters
    ----------
    name
        Of the container.
    cwd
        The working directory, where it is shown.
    """
    size = str(sandbox.disk)
    words = [
        *(sandbox.kind, "run", "--rm", "--interactive", "--name", name, "--label", f"{LABEL}={name}"),
        # no logs: the daemon would keep all that kernel and host say to each other
        *("--pull", "never", "--log-driver", "none", "--network", "none", "--hostname", "sandbox"),
        *("--read-only", "--tmpfs", f"/tmp:rw,nosuid,nodev,exec,mode=1777,size={size}", "--shm-size", size),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", str(sandbox.processes)),
        *("--stop-signal", "KILL", *_user(sandbox.kind)),
    ]
    if sandbox.memory is not None:
        # of all processes together, with what is in /tmp and /dev/shm; each is held to `memory` by the guest
        whole = str(sandbox.memory + 2 * sandbox.disk)
        words += ["--memory", whole, "--memory-swap", whole]
    for variable in _PROXIES:
        words += ["--env", f"{variable}=", "--env", f"{variable.lower()}="]
    for path, changed in sorted(sandbox.folders()):  # a folder before what is in it
        # not --volume, which makes a folder where there is none
        words += ["--mount", f"type=bind,source={path.resolve()},target={path}{'' if changed else ',readonly'}"]
    for place in places_in(path for path, _ in sandbox.folders()):
        words += ["--tmpfs", f"{place}:ro,size=65536,mode=0700"]
    shown = cwd is not None and any(cwd.is_relative_to(path) for path, _ in sandbox.folders())
    words += ["--workdir", str(cwd) if shown else "/tmp", "--entrypoint", "python3", sandbox.image]
    return [*words, "-I", "-c", boot]


def remove(kind: str, name: str) -> None:
    """Remove a container of ours by its name, which no other has, running or not; nothing happens when it is gone."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            [kind, "rm", "--force", name],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_LOOK_SECONDS,
            check=False,
        )


def _user(kind: str) -> Iterator[str]:
    """Yield who the code is there: whoever runs this, so that files in `write` are theirs; for root nobody."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    if user == 0:
        yield from ("--user", f"{_NOBODY}:{_NOBODY}")
        return
    if kind == "podman":
        yield from ("--userns", "keep-id")
    yield from ("--user", f"{user}:{os.getgid()}")
