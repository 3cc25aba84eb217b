"""Kernels that are forked: what they share and what they don't, how they end, and when they are started anew instead."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from rlm_jupyter import RLM, Limits, Sandbox
from rlm_jupyter.kernel import template as template_module
from rlm_jupyter.kernel import template_pool
from rlm_jupyter.kernel import templates as templates_module
from rlm_jupyter.kernel.fork_provisioner import ForkProvisioner
from rlm_jupyter.kernel.forked_kernel import ForkedKernel
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.sandbox.sandbox import NO_SANDBOX
from rlm_jupyter.kernel.template import Template
from rlm_jupyter.kernel.templates import Templates
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.events import Event, RemarkMade
from tests.support.sandboxes import need_bwrap
from tests.unit.kernel.conftest import Answerer, children
from tests.unit.kernel.test_kernel import text_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not templates_module.are_possible(), reason="kernels are forked on Linux"),
    pytest.mark.usefixtures("pool"),
]

_GONE_SECONDS = 20.0


@contextlib.asynccontextmanager
async def forked(*sandboxes: Sandbox, templates: Templates | None = None) -> AsyncIterator[list[Kernel]]:
    """Kernels of one run."""
    templates = templates or Templates()
    kernels = []
    try:
        for sandbox in sandboxes:
            kernels.append(await Kernel.start(Answerer(), sandbox=sandbox, templates=templates))
            assert kernels[-1].is_forked, templates.problem
        yield kernels
    finally:
        for kernel in kernels:
            await kernel.close()
        await templates.close()


def below(process: Any = None) -> list[psutil.Process]:
    return children() if process is None else psutil.Process(process).children(recursive=True)


async def one_waits(templates: int = 1) -> None:
    """Wait until so many templates are there, and a kernel that waits for the next run."""
    names: list[str] = []
    until = time.monotonic() + _GONE_SECONDS
    # those that are still starting have another name, and some may be about to begin
    while names != ["rlm-ready", "rlm-supervisor", *["rlm-template"] * templates] and time.monotonic() < until:
        await asyncio.sleep(0.05)
        with contextlib.suppress(psutil.NoSuchProcess):
            names = sorted(process.name() for process in below())
    assert names == ["rlm-ready", "rlm-supervisor", *["rlm-template"] * templates]


def processes_of(template: Template) -> list[psutil.Process]:
    pid = template._launcher.pid
    return [psutil.Process(pid), *below(pid)]


DIFFERING = """
import asyncio, multiprocessing.synchronize, numpy, os, random, secrets, tempfile, uuid
[
    random.random(), numpy.random.random(), secrets.token_hex(), str(uuid.uuid4()),
    os.path.basename(tempfile.mktemp()), tempfile.gettempdir(), multiprocessing.synchronize.SemLock._make_name(),
    multiprocessing.current_process().authkey.hex(), random.Random().random(),
    numpy.random.default_rng().random(), get_ipython().kernel.session.session, bytes(get_ipython().kernel.session.key),
    get_ipython().kernel.ident, get_ipython().displayhook.topic,
    get_ipython().profile_dir.startup_dir,
]
"""


async def test_a_reset_keeps_the_modules_that_were_there_and_no_others() -> None:
    async with forked(NO_SANDBOX, templates=Templates(preload=("colorsys",))) as (kernel,):
        look = "import sys; ['colorsys' in sys.modules, 'tabnanny' in sys.modules]"
        assert text_of(await kernel.execute(f"import tabnanny; {look}")) == "[True, True]"
        await kernel.execute("%reset -f --aggressive")
        shown = text_of(await kernel.execute(look))
        assert shown == "[True, False]"
        assert text_of(await kernel.execute("llm_query('hi')")) == "'echo hi'"


async def test_two_forks_differ_where_two_processes_do(sandbox: Sandbox) -> None:
    async with forked(sandbox, sandbox, templates=Templates(["numpy", "multiprocessing.synchronize"])) as kernels:
        drawn = [eval(text_of(await kernel.execute(DIFFERING))) for kernel in kernels]
        same = [index for index, (one, other) in enumerate(zip(*drawn, strict=True)) if one == other]
        # inside a sandbox, each has a `/tmp` of its own
        assert same == ([5, 14] if sandbox.kind == "bwrap" else [])
        # the hash seed is fixed for every kernel, so that a run can be repeated
        assert len({text_of(await kernel.execute("hash('text')")) for kernel in kernels}) == 1


async def test_a_fork_is_a_kernel_like_any_other(sandbox: Sandbox) -> None:
    async with forked(sandbox) as [kernel]:
        code = (
            "import asyncio, gc, multiprocessing, os, signal, subprocess, sys, threading\n"
            "with multiprocessing.get_context('fork').Pool(2) as pool: print(sum(pool.map(abs, [-1, -2])))\n"
            "print(os.getpgid(0) == os.getpid() == os.getsid(0), os.getppid() == int(os.environ['JPY_PARENT_PID']))\n"
            "print(subprocess.run(['true']).returncode, signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL)\n"
            "await asyncio.sleep(0.01); print(llm_query('a'), threading.main_thread() is threading.current_thread())\n"
            "print(sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:3], os.getcwd() in ('/tmp/work', %r))\n"
            "print(any('rlm' in name or 'RLM' in name for name in os.environ if name != 'JPY_PARENT_PID'))"
        )
        run = await kernel.execute(code % str(Path.cwd()))
        assert text_of(run).split("\n")[:-1] == [
            "3", "True True", "0 True", "echo a True", "[0, 1, 2] True", "False",
        ]  # fmt: skip
        assert text_of(await kernel.execute("from IPython.core.getipython import get_ipython; get_ipython().home_dir"))
        running = asyncio.create_task(kernel.execute("!sleep 60"))
        await asyncio.sleep(0.5)
        await kernel.interrupt()
        assert (await asyncio.wait_for(running, 30)).status == "interrupted"


async def test_what_a_fork_puts_out_is_its_own_and_goes_on_after_a_cell_that_has_replaced_it(sandbox: Sandbox) -> None:
    async with forked(sandbox, sandbox) as kernels:
        for kernel in kernels:
            replacing = await kernel.execute("import sys; print('before'); sys.stdout = sys.stderr = None")
            assert text_of(replacing) == "before\n"
        for number, kernel in enumerate(kernels):
            run = await kernel.execute(f"print({number}); display({number} + 10); {number} + 20")
            assert text_of(run) == f"{number}\n{number + 10}{number + 20}"


async def test_a_preloaded_module_may_replace_what_cells_rely_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "import builtins, warnings\nbuiltins.plus = builtins.sum = max\nwarnings.simplefilter('always')\n"
    (tmp_path / "replacing.py").write_text(module)
    monkeypatch.chdir(tmp_path)
    async with forked(NO_SANDBOX, templates=Templates(["replacing"])) as [kernel]:
        assert text_of(await kernel.execute("sum([1, 2])")) == "2"
        assert (await kernel.inspect()).restored == ()
        exited = await kernel.execute("import sys; sys.exit()")
        assert (exited.status, exited.outputs) == ("ok", ())


async def test_a_fork_that_cannot_be_taken_is_ended(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    forks: list[ForkedKernel] = []

    def failing(self: ForkProvisioner, kernel: ForkedKernel, *args: Any) -> None:
        forks.append(kernel)
        raise MemoryError

    templates = Templates()
    async with forked(sandbox, templates=templates):
        monkeypatch.setattr(ForkProvisioner, "take", failing)
        with pytest.raises(MemoryError):
            await Kernel.start(Answerer(), sandbox=sandbox, templates=templates)
        [fork] = forks
        assert fork.process.poll() is not None
        assert not fork.directory.path.exists()


@pytest.mark.parametrize(
    ("source", "how"),
    [
        ("import os; os._exit(3)", "exit code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "signal 9"),
        ("import ctypes; ctypes.string_at(0)", "signal 11"),
    ],
)
async def test_how_a_fork_ends_is_seen_at_once_and_no_zombie_stays(sandbox: Sandbox, source: str, how: str) -> None:
    async with forked(sandbox, sandbox) as [kernel, other]:
        process = psutil.Process(kernel._connection.process.pid)
        assert (await kernel.execute(source)).status == "died"
        assert kernel._connection.ended == f"the kernel's process ended ({how})"
        psutil.wait_procs([process], timeout=_GONE_SECONDS)
        assert not process.is_running()
        assert not [each for each in below() if each.status() == psutil.STATUS_ZOMBIE]
        await kernel.restart()
        assert kernel.is_forked
        assert text_of(await other.execute("1 + 1")) == "2"


async def test_closed_kernels_leave_the_template_alone_for_the_next_run(pool: Any, sandbox: Sandbox) -> None:
    templates = Templates()
    async with forked(sandbox, sandbox, templates=templates) as kernels:
        [template] = {*pool.shared.values(), *pool.claimed}
        places = [kernel._connection.process._directory.path for kernel in kernels]
        places.append(template._directory.path)
        many = below()
    _, alive = psutil.wait_procs(many, timeout=2)
    # itself, and the two of bubblewrap that it is in
    assert len(alive) == (1 if sandbox.kind == "none" else 3), alive
    assert template._launcher.pid in [process.pid for process in alive]
    assert [*pool.shared.values(), *pool.spare.values()] == [template]
    assert not pool.claimed
    pool.close()
    assert not below()
    assert not [place for place in places if place.exists()]


async def test_a_run_inside_a_sandbox_has_its_template_to_itself(tmp_path: Path, pool: Any) -> None:
    need_bwrap()
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file.txt").write_text(f"of {name}")
    sandboxes = [Sandbox("bwrap", read=[tmp_path / name]) for name in ("one", "other")]
    async with forked(sandboxes[0]) as [one], forked(sandboxes[1]) as [other], forked(sandboxes[0]) as [again]:
        assert len(pool.claimed) == 3
        look = f"import glob; [open(path).read() for path in sorted(glob.glob({str(tmp_path / '*' / '*')!r}))]"
        assert [text_of(await kernel.execute(look)) for kernel in (one, other)] == ["['of one']", "['of other']"]
        await one.execute("open('/tmp/note', 'w').write('secret'); open('/dev/shm/note', 'w').write('secret')")
        found = "import glob; glob.glob('/tmp/note') + glob.glob('/dev/shm/note')"
        assert [text_of(await kernel.execute(found)) for kernel in (other, again)] == ["[]", "[]"]
        assert len({namespace_of(kernel, "user") for kernel in (one, other, again)}) == 3


@pytest.mark.parametrize("what", ["file", "folder"])
async def test_what_has_taken_the_place_of_another_is_shown_to_the_next_run(
    what: str, tmp_path: Path, pool: Any
) -> None:
    need_bwrap()
    shown = tmp_path / "shown"
    file = shown if what == "file" else shown / "text"
    templates: list[Template] = []
    for content in ("old", "new", "new"):
        if len(templates) < 2:
            if what == "folder":
                shutil.rmtree(shown, ignore_errors=True)
                shown.mkdir()
            (tmp_path / "made").write_text(content)
            (tmp_path / "made").replace(file)
        async with forked(Sandbox("bwrap", read=[shown])) as [kernel]:
            templates += pool.claimed
            assert text_of(await kernel.execute(f"open({str(file)!r}).read()")) == repr(content)
    # not only because no kernel could be forked from it any more, as where what it shows is below /tmp
    assert templates[0].environment != templates[1].environment
    assert templates[1] is templates[2]


LEAVING = """
import builtins, glob, os, random, subprocess
for place in ("/tmp/note", "/dev/shm/note"):
    open(place, "w").write("secret")
for path in glob.glob("/proc/[0-9]*/fd/*"):
    try:
        end = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        continue
    if os.readlink(f"/proc/self/fd/{end}").startswith("pipe"):
        os.write(end, b"secret")
builtins.left = os.environ["LEFT"] = "secret"
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
random.random()
"""
FINDING = """
import builtins, glob, os, random
commands = [open(path).read() for path in glob.glob("/proc/[0-9]*/cmdline")]
left = [hasattr(builtins, "left"), "LEFT" in os.environ, "child" in globals(), any("sleep" in each for each in commands)]
said = b""
for path in glob.glob("/proc/[0-9]*/fd/*"):
    try:
        said += os.read(os.open(path, os.O_RDONLY | os.O_NONBLOCK), 1000)
    except OSError:
        pass
left += [b"secret" in said, b"secret" in os.read(0, 1000)]
print(glob.glob("/tmp/note") + glob.glob("/dev/shm/note"), left)
random.random()
"""


async def test_the_next_run_of_a_template_finds_nothing_of_the_one_before(pool: Any) -> None:
    need_bwrap()
    async with forked(Sandbox("bwrap")) as [before]:
        [template] = pool.claimed
        number = text_of(await before.execute(LEAVING)).rpartition("secret")[2]  # what is written to a pipe is shown
        its = psutil.Process(before._connection.process.pid)
        its_all = [its, *below(its.pid)]
        assert len(its_all) > 1
    assert not psutil.wait_procs(its_all, timeout=_GONE_SECONDS)[1]
    async with forked(Sandbox("bwrap")) as [after]:
        assert [*pool.claimed] == [template]
        found, _, another = text_of(await after.execute(FINDING)).partition("\n")
        assert found == "[] [False, False, False, False, False, False]"
        assert float(another) != float(number)


def namespace_of(kernel: Kernel, kind: str) -> str:
    return str(Path(f"/proc/{kernel._connection.process.pid}/ns/{kind}").readlink())


async def test_not_even_kernels_of_one_run_see_each_other_inside_a_sandbox() -> None:
    need_bwrap()
    shut = Sandbox("bwrap")
    async with forked(shut, shut) as [one, other]:
        for kind in ("pid", "mnt", "ipc", "net"):
            assert namespace_of(one, kind) != namespace_of(other, kind)
        await one.execute(
            "import os, socket, threading\nmarker = 'planted' + '-memory'\nopen('/tmp/note', 'w').write(marker)\n"
            "open('/dev/shm/note', 'w').write(marker); os.environ['MARKER'] = marker\n"
            "server = socket.create_server(('127.0.0.1', 4567)); abstract = socket.socket(socket.AF_UNIX)\n"
            "abstract.bind('\\0rlm-abstract'); abstract.listen()"
        )
        attack = (
            "import ctypes, glob, os, socket\n"
            "print(sorted(int(name) for name in os.listdir('/proc') if name.isdigit()) == [1, os.getpid()])\n"
            "print([path for path in glob.glob('/tmp/**', recursive=True) + glob.glob('/dev/shm/*') if path.endswith('/note')])\n"
            "for family, address in (socket.AF_INET, ('127.0.0.1', 4567)), (socket.AF_UNIX, '\\0rlm-abstract'):\n"
            "    with socket.socket(family) as s: print(s.connect_ex(address) != 0)\n"
            "own = socket.create_server(('127.0.0.1', 0)); print(socket.create_connection(own.getsockname()) is not None)\n"
            "status = open('/proc/self/status').read()\n"
            "print([line.split()[1] for line in status.splitlines() if line.startswith('Cap')])\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "print([libc.unshare(kind) for kind in (0x10000000, 0x20000, 0x20000000)], libc.umount2(b'/tmp', 0))\n"
            "print(libc.mount(b'x', b'/tmp', b'tmpfs', 0, None), os.access('/proc/sys/kernel/hostname', os.W_OK))\n"
        )
        assert text_of(await other.execute(attack)).splitlines() == [
            "True", "[]", "True", "True", "True", str(["0000000000000000"] * 5), "[-1, -1, -1] -1", "-1 False",
        ]  # fmt: skip
        assert text_of(await one.execute("open('/tmp/note').read()")) == "'planted-memory'"


_PROBE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
rights = [line.split()[1] for line in open('/proc/self/status') if line.startswith('CapEff')]
remounted = [libc.mount(b'none', path, None, ctypes.c_ulong(32 | 4096), None) for path in (b'/usr', FOLDER)]
if not os.fork():
    libc.unshare(0x20000)
    again = libc.mount(b'none', b'/usr', None, ctypes.c_ulong(32 | 4096), None)
    os._exit(again == 0 or libc.umount2(b'/usr', 0) == 0 or libc.unshare(0x10000000) == 0)
escaped = os.waitstatus_to_exitcode(os.wait()[1])
writable = os.access('/usr', os.W_OK), os.access(FOLDER, os.W_OK)
"""


async def test_what_a_template_imports_has_no_rights_over_its_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may have written those modules."""
    need_bwrap()
    planted, shown = tmp_path / "planted", tmp_path / "shown"
    planted.mkdir()
    shown.mkdir()
    (shown / "probe.py").write_text(_PROBE.replace("FOLDER", repr(str(shown).encode())))
    for name in ("json", "ctypes", "IPython", "ipykernel", "encodings", "sitecustomize"):
        (planted / f"{name}.py").write_text("open('/dev/shm/planted', 'w')\nraise SystemExit('planted')")
        (tmp_path / f"{name}.py").write_text((planted / f"{name}.py").read_text())
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(shown), os.environ.get("PYTHONPATH", "")]))
    # the working directory is shown, and may be changed, and so may be a folder that modules are looked for in
    sandbox = Sandbox("bwrap", read=[shown], write=[tmp_path, planted])
    async with forked(sandbox, templates=Templates(["probe"])) as [kernel]:
        look = "import os, sys; probe = sys.modules['probe']; probe.remounted, probe.escaped, probe.writable"
        assert text_of(await kernel.execute(look)) == "([-1, -1], 0, (False, False))"
        assert text_of(await kernel.execute("probe.rights != ['0' * 16]")) == "True"  # or it could make no namespaces
        assert text_of(await kernel.execute("os.path.exists('/dev/shm/planted')")) == "False"
        assert text_of(await kernel.execute("os.getcwd()")) == repr(str(tmp_path))


async def test_a_killed_template_is_replaced_and_without_a_sandbox_its_kernels_live_on(
    pool: Any, sandbox: Sandbox
) -> None:
    templates = Templates()
    async with forked(sandbox, templates=templates) as [kernel]:
        await kernel.execute("kept = 1")
        [template] = {*pool.shared.values(), *pool.claimed}
        inside = next(process for process in processes_of(template) if process.name() == "rlm-template")
        inside.send_signal(signal.SIGKILL)
        psutil.wait_procs([inside], timeout=_GONE_SECONDS)
        if sandbox.kind == "none":
            assert text_of(await kernel.execute("kept")) == "1"
        else:
            async with asyncio.timeout(30):  # its end takes the kernel along, a moment later
                while (await kernel.execute("kept")).status != "died":
                    pass
            await kernel.restart()
            assert kernel.is_forked
        another = await Kernel.start(Answerer(), sandbox=sandbox, templates=templates)
        assert another.is_forked
        assert text_of(await another.execute("1 + 1")) == "2"
        await another.close()
    assert not [each for each in below() if each.status() == psutil.STATUS_ZOMBIE]


async def test_templates_that_die_are_started_twice_and_then_kernels_anew(
    pool: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = []

    def command(*args: Any, **options: Any) -> Any:
        made.append(args)
        return (
            [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"],
            [],
            dict(os.environ) | {"RLM_CONFINED": "{}"},
        )

    monkeypatch.setattr(template_module, "guest_command", command)
    templates = Templates()
    for _ in range(2):
        kernel = await Kernel.start(Answerer(), templates=templates)
        assert not kernel.is_forked
        assert text_of(await kernel.execute("1 + 1")) == "2"
        await kernel.close()
    assert len(made) == 2
    assert templates.problem is not None
    assert "started anew" in templates.problem
    assert not [record for record in caplog.records if "started anew" in record.message]  # it is told as a remark


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("import threading\nthreading.Thread(target=__import__('time').sleep, args=[60], name='mine', daemon=True).start()",
         "importing unfit starts a thread (mine)"),
        ("import _thread, time\n_thread.start_new_thread(time.sleep, (60,))\ntime.sleep(0.2)",
         "importing unfit starts threads"),
    ],
)  # fmt: skip
async def test_a_module_that_no_fork_can_have_is_named_in_one_line_and_the_run_goes_on(module: str, says: str) -> None:
    Path("unfit.py").write_text(module)
    remarks: list[str] = []

    def told(event: Event) -> None:
        if isinstance(event, RemarkMade):
            remarks.append(event.text)

    rlm = RLM(ScriptedModel(["```repl\nFINAL(len(context))\n```"]), sandbox="none", save=False, preload=["unfit"])
    result = await rlm.acompletion("What?", "text", on_event=told)
    assert result.answer == "4"
    assert "kernel" not in result.trajectory.started.options
    assert len(remarks) == 1
    assert says in remarks[0]
    assert "\n" not in remarks[0]


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("raise ValueError('no such thing')", "importing unfit failed: ValueError: no such thing."),
        (None, "importing unfit failed: ModuleNotFoundError: No module named 'unfit'."),
    ],
)
async def test_a_module_that_cannot_be_imported_is_refused_before_anything_is_asked(
    module: str | None, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    if module is not None:
        Path("unfit.py").write_text(module)
    model = ScriptedModel(["```repl\nFINAL(len(context))\n```"])
    rlm = RLM(model, sandbox="none", preload=["unfit"])  # a sandbox does not show this folder
    with pytest.raises(ConfigurationError) as error:
        await rlm.acompletion("What?", "text")
    assert str(error.value) == f"preload: {says}"
    assert error.value.for_notebook == error.value.for_command_line == f"--preload: {says}"
    assert not caplog.records
    assert not [*Path("rlm_runs").glob("*.ipynb")]
    Path("unfit.py").write_text("")
    assert (await rlm.acompletion("What?", "text")).answer == "4"


async def test_preloaded_modules_are_there_and_work(sandbox: Sandbox) -> None:
    async with forked(sandbox, templates=Templates(["pandas"])) as [kernel]:
        look = "import sys; 'pandas' in sys.modules, 'pd' in dir(), 'pandas' in dir()"
        assert text_of(await kernel.execute(look)) == "(True, False, False)"
        # the threads of its libraries were ended before the fork, and come back
        work = "import numpy, pandas as pd\nfloat(numpy.ones((300, 300)).dot(numpy.ones((300, 300))).sum()), pd.Series([1, 2]).sum()"
        assert text_of(await kernel.execute(work)) == "(27000000.0, np.int64(3))"


@pytest.mark.parametrize("preload", ["pandas", [1], ["os; exit()"], [""], 3])
def test_what_is_no_list_of_modules_is_refused(preload: Any) -> None:
    with pytest.raises(ConfigurationError, match="preload is a list"):
        RLM("extractive", preload=preload)


async def test_a_kernel_that_is_started_anew_is_as_good(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of the suite, that of `tests/faults` and `tests/security` too, runs so with `RLM_TEMPLATES=0`."""
    monkeypatch.setenv(templates_module.VARIABLE, "0")
    kernel = await Kernel.start(Answerer(), sandbox=sandbox)
    try:
        assert not kernel.is_forked
        assert text_of(await kernel.execute("llm_query('a')")) == "'echo a'"
        running = asyncio.create_task(kernel.execute("!sleep 60"))
        await asyncio.sleep(0.5)
        await kernel.interrupt()
        assert (await asyncio.wait_for(running, 30)).status == "interrupted"
        assert (await kernel.execute("import os; os._exit(3)")).status == "died"
        assert kernel._connection.ended == "the kernel's process ended (exit code 3)"
        await kernel.restart()
        assert text_of(await kernel.execute("1 + 1")) == "2"
    finally:
        await kernel.close()
    assert not below()


async def test_children_are_forked_and_the_record_says_so() -> None:
    child = ScriptedModel(["```repl\nFINAL(len(context))\n```"] * 3, name="scripted/child")
    root = ScriptedModel(["```repl\nFINAL(rlm_query_batched(['a', 'bc', 'def']))\n```"])
    rlm = RLM(root, sub_model=child, limits=Limits(max_depth=2), sandbox="none", save=True)
    result = await rlm.acompletion("What?", "text")
    assert result.value == ["1", "2", "3"]
    assert result.trajectory.started.options["kernel"] == "forked"
    assert result.path is not None
    await one_waits()


@pytest.mark.parametrize("how", ["variable", "option"])
async def test_it_can_be_switched_off(how: str, monkeypatch: pytest.MonkeyPatch, pool: Any) -> None:
    if how == "variable":
        monkeypatch.setenv(templates_module.VARIABLE, "0")
    model = ScriptedModel(["```repl\nFINAL(1)\n```"])
    rlm = RLM(model, sandbox="none", save=False, warm=how == "variable")
    rlm.warm()
    result = await rlm.acompletion("What?", "text")
    assert "kernel" not in result.trajectory.started.options
    assert not pool.shared
    assert not below()


def test_the_run_after_warm_imports_nothing_of_ours(tmp_path: Path) -> None:
    code = """
import sys
from rlm_jupyter import RLM
from rlm_jupyter.models.scripted import ScriptedModel
rlm = RLM(ScriptedModel(["```repl\\nprint(1)\\n```", "```repl\\nFINAL(1)\\n```"]), sandbox="none", save="runs")
rlm.warm()
before = set(sys.modules)
assert rlm.completion("What?", "text").answer == "1"
print(*(name for name in set(sys.modules) - before if name.startswith("rlm_jupyter")))
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert said.stdout.split() == []


async def test_a_warmed_template_is_the_next_runs(pool: Any, sandbox: Sandbox) -> None:
    rlm = RLM(ScriptedModel(["```repl\nFINAL(1)\n```"] * 3), sandbox=sandbox, save=False)
    rlm.warm()
    rlm.warm()
    template: Template = next(iter([*pool.shared.values(), *pool.spare.values()]))
    result = await rlm.acompletion("What?", "text")
    assert result.trajectory.started.options["kernel"] == "forked"
    # and of the run after that
    assert [*pool.shared.values(), *pool.spare.values()] == [template]
    assert not pool.claimed
    result = await rlm.acompletion("What?", "text")
    assert [*pool.shared.values(), *pool.spare.values()] == [template]
    assert not template.has_ended
    # a kernel that is kept keeps it, and another one is there for the next run
    with rlm.completion("What?", "text", keep_kernel=True) as kept:
        assert kept.trajectory.started.options["kernel"] == "forked"
        others = [*pool.shared.values(), *pool.spare.values()]
        assert (others == [template]) is (sandbox.kind == "none")
        assert len(others) == 1
    # the other one goes
    assert [*pool.shared.values(), *pool.spare.values()] == [template]


async def test_a_host_with_many_open_files_sees_how_a_fork_ends() -> None:
    resource = pytest.importorskip("resource")
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2_000:
        pytest.skip("so many files can't be open here")
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]  # select() takes none above 1023
    try:
        async with forked(NO_SANDBOX) as [kernel]:
            assert (await kernel.execute("import os; os._exit(3)")).status == "died"
            assert kernel._connection.ended == "the kernel's process ended (exit code 3)"
    finally:
        for fd in opened:
            os.close(fd)


async def test_the_pool_is_bounded(pool: Any, tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).mkdir()
        templates = Templates()
        templates.warm(templates.environment(None, tmp_path / str(number), None, NO_SANDBOX))
    assert len(pool.shared) == template_pool._MOST_SHARED
    await one_waits(len(pool.shared))


def test_a_template_that_nobody_uses_ends() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    code = (
        "import socket, sys\nfrom rlm_jupyter.kernel.guest import template_process as template\ntemplate._IDLE_SECONDS = 0.3\n"
        "template.serve(socket.socket(fileno=int(sys.argv[1])), [], ['--HistoryManager.enabled=False'])"
    )
    with ours, theirs:
        fd = theirs.fileno()
        done = subprocess.run([sys.executable, "-c", code, str(fd)], pass_fds=[fd], timeout=60, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("request_sent", "said", "stays"),
    [
        (b'{"disk": 1, "idle": 0}', None, True),
        (b'{"disk": 1, "idle": 0}', b'{"claimed": false}', False),
        (b'{"disk": 1, "idle": 300}', None, False),
        (b'{"disk": 1, "idle": 300}', b'{"claimed": true}', True),
    ],
)
def test_one_that_has_a_kernel_inside_a_sandbox_lasts_as_long_as_a_run_has_that(
    request_sent: bytes, said: bytes | None, stays: bool
) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    code = (
        "import socket, sys\nfrom rlm_jupyter.kernel.guest import template_process as template\n"
        "template._IDLE_SECONDS = 0.3\ntemplate._fork = lambda channel, asked, fds, name: print('asked', flush=True)\n"
        "template._fork_on_request(socket.socket(fileno=int(sys.argv[1])), 'x')"
    )
    with ours, theirs:
        fd = theirs.fileno()
        command = [sys.executable, "-c", code, str(fd)]
        socket.send_fds(ours, [request_sent], [fd])
        if said is not None:
            ours.send(said)  # it would have to come within 0.3 s of the request
        with subprocess.Popen(command, pass_fds=[fd], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "asked\n"
            if not stays:
                assert process.wait(10) == 0
                return
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(2)
            process.kill()


def test_a_fork_of_the_host_has_none_of_its_templates(pool: Any) -> None:
    templates = Templates()
    templates.warm(templates.environment(None, Path.cwd(), None, NO_SANDBOX))
    assert pool.shared
    child = os.fork()
    if not child:
        try:
            os._exit(0 if not template_pool.current().shared else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


HOST = """
import asyncio, json, sys
from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
from rlm_jupyter.kernel.fork_provisioner import ForkProvisioner
from rlm_jupyter.kernel.forked_kernel import ForkedKernel
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.templates import Templates
async def main():
    templates = Templates()
    kernels = [await Kernel.start(None, sandbox=Sandbox(sys.argv[1]), templates=templates) for _ in range(3)]
    assert all(kernel.is_forked for kernel in kernels)
    cells = [asyncio.create_task(kernel.execute("import subprocess\\nsubprocess.Popen(['sleep', '600'],"
        " start_new_session=True)\\nimport itertools\\nsum(itertools.count())")) for kernel in kernels]
    templates.refill()
    await asyncio.sleep(1)
    print(json.dumps([str(kernel._connection.process._directory.path) for kernel in kernels]), flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def test_all_end_with_a_host_that_is_killed(sandbox: Sandbox) -> None:
    from rlm_jupyter.kernel import directory

    host = subprocess.Popen([sys.executable, "-c", HOST, sandbox.kind], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    with host.stdout:
        places = [Path(path) for path in json.loads(host.stdout.readline())]
        many, names, until = list[psutil.Process](), list[str](), time.monotonic() + _GONE_SECONDS
        while names.count("sleep") != 3 and time.monotonic() < until:
            time.sleep(0.05)
            with contextlib.suppress(psutil.NoSuchProcess):
                many = below(host.pid)
                names = [process.name() for process in many]
        assert names.count("sleep") == 3
        host.kill()
        host.wait()
    _, alive = psutil.wait_procs(many, timeout=_GONE_SECONDS)
    assert not alive
    until = time.monotonic() + _GONE_SECONDS
    folder = places[0].parent
    while any(place.exists() for place in places) and time.monotonic() < until:
        directory.sweep(str(folder.parent))
        time.sleep(0.05)
    assert not any(place.exists() for place in places)
