"""Kernels in containers: real ones where podman or docker can start any, else the client's own command line."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter import RLM, Limits, Sandbox
from rlm_jupyter.frontends.cli.commands.doctor import _containers
from rlm_jupyter.frontends.run_options import image_of
from rlm_jupyter.kernel import directory
from rlm_jupyter.kernel.container_process import _BOOT, ContainerProcess
from rlm_jupyter.kernel.guest.piped import pack, reader, unpack
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.sandbox import container
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.types.errors import ConfigurationError, ForkRefusedError, KernelStartError
from rlm_jupyter.types.values import Subcall, SubcallFailure
from tests.support.sandboxes import need_container


async def echo(call: Subcall) -> list[str | SubcallFailure]:
    return [f"echo {prompt}" for prompt in call.prompts]


@pytest.fixture
def kind() -> Iterator[str]:
    kind = need_container()
    yield kind
    assert left(kind) == []


def left(kind: str) -> list[str]:
    """The containers of ours that there are, running or not."""
    words = [kind, "ps", "--all", "--filter", f"label={container.LABEL}", "--format", "{{.Names}}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()


def scripted(kind: str, *replies: str, **options: Any) -> RLM:
    return RLM(ScriptedModel(replies, sub=lambda prompt: prompt.upper()), sandbox=kind, **options)


def test_a_run_in_a_container(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:planted@proxy:1")
    rlm = scripted(
        kind,
        "```repl\nimport os, pathlib\nplaces = [*pathlib.Path('/proc').glob('[0-9]*/environ')]\n"
        "seen = ''.join(p.read_text() for p in places if os.access(p, os.R_OK)) + str(dict(os.environ))\n"
        "print('planted' in seen, os.getuid(), os.getcwd(), len(context))\n```",
        "```repl\nfrom pathlib import Path\nPath(OUTPUTS, 'words.txt').write_text(llm_query('a word'))\n"
        "FINAL(rlm_query('b'))\n```",
        outputs=["words.txt"],
        save=tmp_path / "run.ipynb",
        output_dir=tmp_path / "made",
        limits=Limits(max_depth=1),
    )
    text = "x" * 30_000_000
    result = rlm.completion("?", text)
    assert result.answer == "B", result.message
    assert (tmp_path / "made" / "words.txt").read_text() == "A WORD"
    model: Any = rlm.settings.routing.root
    said = re.search(rf"^(\w+) (\d+) {container.WORK} 30000000$", model.requests[1][-1].content, re.M)
    assert said is not None
    assert said[1] == "False"
    assert said[2] != "0"
    assert result.trajectory.started.options["sandbox"] == {"kind": kind}
    assert f"- Sandbox: {kind}" in (tmp_path / "run.ipynb").read_text()


async def test_cells_are_interrupted_and_the_kernel_starts_again(kind: str) -> None:
    kernel = await Kernel.start(echo, sandbox=Sandbox.of(kind))
    try:
        assert (await kernel.execute("import time; time.sleep(60)", cell_seconds=1)).status == "interrupted"
        run = await kernel.execute("print(llm_query('a'))")
        assert run.outputs[0]["text"] == "echo a\n"
        with pytest.raises(ForkRefusedError, match="in a container"):
            await kernel.fork(echo)
        assert (await kernel.execute("import os; os.kill(os.getpid(), 9)")).status == "died"
        await kernel.restart()
        assert (await kernel.execute("1 + 1")).outputs[0]["data"]["text/plain"] == "2"
        flood = "import sys\nfor _ in range(300): print('y' * 100_000); sys.stdout.flush()"
        assert (await kernel.execute(flood)).status == "ok"
    finally:
        await kernel.close()


async def test_only_the_folders_that_are_named_are_there(kind: str, tmp_path: Path) -> None:
    (tmp_path / "read").mkdir()
    (tmp_path / "write").mkdir(mode=0o777)
    (tmp_path / "write").chmod(0o777)  # root's kernel is nobody there
    tmp_path.chmod(0o755)
    (tmp_path / "read" / "a.txt").write_text("shown")
    (tmp_path / "other.txt").write_text("hidden")
    box = {"kind": kind, "read": [tmp_path / "read"], "write": [tmp_path / "write"]}
    kernel = await Kernel.start(echo, sandbox=Sandbox.of(box), cwd=tmp_path / "read")
    try:
        run = await kernel.execute(
            f"import os\nprint(os.getcwd(), open('a.txt').read(), os.path.exists({str(tmp_path / 'other.txt')!r}))\n"
            f"open({str(tmp_path / 'write' / 'b.txt')!r}, 'w').write('made')\n"
            "try: open('b.txt', 'w')\nexcept OSError as error: print(error.strerror)"
        )
        assert run.outputs[0]["text"] == f"{tmp_path / 'read'} shown False\nRead-only file system\n"
        assert (tmp_path / "write" / "b.txt").read_text() == "made"
    finally:
        await kernel.close()


_HOST = """
import asyncio, sys
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
async def main():
    kernel = await Kernel.start(None, sandbox=Sandbox.of(sys.argv[1]))
    print("up", flush=True)
    await kernel.execute("import time; time.sleep(600)")
asyncio.run(main())
"""


def test_a_killed_host_leaves_nothing(kind: str) -> None:
    host = subprocess.Popen([sys.executable, "-c", _HOST, kind], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    assert host.stdout.readline() == "up\n"
    assert len(left(kind)) == 1
    os.kill(host.pid, signal.SIGKILL)
    host.wait()
    host.stdout.close()
    until = time.monotonic() + 20
    while left(kind) and time.monotonic() < until:
        time.sleep(0.2)
    assert left(kind) == []


async def test_an_image_without_ipykernel_is_said_before_anything_is_asked(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "rlm_jupyter.kernel.container_process._BOOT", _BOOT.replace("import ipykernel", "import no_ipykernel")
    )
    with pytest.raises(KernelStartError, match="the image has no ipykernel: RUN pip install ipykernel"):
        await Kernel.start(echo, sandbox=Sandbox.of(kind))
    model = ScriptedModel([])
    with pytest.raises(KernelStartError):
        await RLM(model, sandbox=kind, save=False).acompletion("?", "text")
    assert model.requests == []


# --- what needs no container ----------------------------------------------------------------------------------


def test_the_real_client_takes_every_option(tmp_path: Path) -> None:
    if shutil.which("docker") is None or container.why_not("docker", "rlm-kernel") is None:
        pytest.skip("there is no client of docker's, or it can start containers")
    sandbox = Sandbox("docker", read=[tmp_path], memory=2**30, image="some/image:1")
    words = container.command(sandbox, "rlm-test", tmp_path, "pass")
    said = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    # what it does not know, it says before it looks for its daemon
    assert "unknown flag" not in said.stderr
    assert "invalid" not in said.stderr.lower()
    assert "Cannot connect to the Docker daemon" in said.stderr
    wrong = subprocess.run([*words[:2], "--no-such-option", *words[2:]], capture_output=True, text=True, check=False)
    assert "unknown flag" in wrong.stderr


def test_what_a_container_is_started_with() -> None:
    words = container.command(Sandbox("docker", memory=2**30), "rlm-test", None, "boot")
    pairs = set(itertools.pairwise(words))
    assert {("--network", "none"), ("--cap-drop", "ALL"), ("--pull", "never"), ("--log-driver", "none")} <= pairs
    assert {("--memory", str(3 * 2**30)), ("--pids-limit", "4096"), ("--env", "HTTPS_PROXY=")} <= pairs
    assert {"--rm", "--read-only", "--interactive"} <= set(words)
    assert "--mount" not in words
    assert words[-4:] == ["rlm-kernel", "-I", "-c", "boot"]


def test_the_places_of_kernels_are_in_no_folder_that_a_container_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        words = container.command(Sandbox("docker", read=[folder]), "rlm-test", None, "boot")
        places = directory.folder_of_all()
        assert words[words.index("--mount") + 2 :][:2] == ["--tmpfs", f"{places}:ro,size=65536,mode=0700"]
        places.mkdir()
        with pytest.raises(ConfigurationError, match="can't be shown"):
            Sandbox("docker", read=[places])


@pytest.mark.parametrize("kind", ["docker", "podman"])
def test_what_is_missing_is_said_in_a_line(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = tmp_path / kind
    for script, said in (
        (f"echo 'Error: No such image: x' >&2; exit 1 # {kind}", "there is no image rlm-kernel. Build it: printf"),
        (
            "echo 'Cannot connect to the Docker daemon. Is it running?' >&2; exit 1",
            r"daemon. Is it running\? Start what",
        ),
    ):
        client.write_text(f"#!/bin/sh\n{script}\n")
        client.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        with pytest.raises(ConfigurationError, match=f"sandbox='{kind}' does not work here: .*{said}"):
            RLM("extractive", sandbox=kind)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(ConfigurationError, match=f"{kind} is not installed"):
        RLM("extractive", sandbox=kind)


def test_the_doctor_says_whether_the_real_clients_can_be_used() -> None:
    found = {check.name: check for check in _containers()}
    assert found.keys() == {kind for kind in ("docker", "podman") if shutil.which(kind)}
    for kind, check in found.items():
        why = container.why_not(kind, container.IMAGE)
        assert check.state == ("ok" if why is None else "note")
        assert why is None or why[1:] in check.what


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"insurance": True}, "insurance can't be had in a container"),
        ({"preload": ["json"]}, "preload can't be had in a container"),
        ({"kernel_name": "python3"}, "kernel_name can't be had in a container"),
    ],
)
def test_what_can_not_be_had_there(options: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "why_not", lambda kind, image: None)
    with pytest.raises(ConfigurationError, match=said):
        RLM("extractive", sandbox="docker", **options)


def test_an_image_is_for_containers() -> None:
    for wrong in ("", "-v"):
        with pytest.raises(ConfigurationError, match="the name of an image"):
            Sandbox("docker", image=wrong)
    with pytest.raises(
        ConfigurationError, match="--container-image x needs a container: add --sandbox docker or podman"
    ):
        image_of("x", "bwrap")
    assert Sandbox("podman", image="x").asked() == {"kind": "podman", "image": "x"}


def test_messages_are_packed_and_unpacked() -> None:
    data = io.BytesIO(b"".join(map(bytes, pack(2, [b"a", memoryview(b""), b"bc"]))))
    assert unpack(data.read) == (2, [b"a", b"", b"bc"])
    for wrong in ((0, 1 << 40), (0, 1, 1 << 60)):
        data = io.BytesIO(b"".join(number.to_bytes(8, "big") for number in wrong))
        with pytest.raises(ValueError, match="no message"):
            unpack(data.read)
    reads, writes = os.pipe()
    os.write(writes, b"abc")
    os.close(writes)
    read = reader(reads)
    assert read(2) == b"ab"
    with pytest.raises(EOFError):
        read(2)
    os.close(reads)


async def test_what_is_no_message_ends_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    told: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(
        container, "command", lambda *_: ["/bin/sh", "-c", "head -c 99 /dev/zero | tr '\\0' x; sleep 99"]
    )
    monkeypatch.setattr("rlm_jupyter.kernel.container_process._CLOSE_SECONDS", 0.2)
    process = await ContainerProcess.run(Sandbox("docker"), Path.cwd(), None)
    process.on_death(told.set_result)
    async with asyncio.timeout(20):
        assert await told == -signal.SIGKILL
    await process.kill()
    assert json.dumps(process.stderr_tail) == '""'
