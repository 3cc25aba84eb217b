"""What a cell could be made to try. Each prints GOT when it succeeds, and only then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Without = Literal["stopped", "succeeds", "either"]


@dataclass(frozen=True)
class Attempt:
    """A try, what stops it in a sandbox, and how it ends without one."""

    name: str
    stopped_by: str
    without: Without
    source: str


_READ = """
import os
def got(path):
    try:
        with open(path, 'rb') as file:
            if b'planted' in file.read(1_000_000): print('GOT', path)
    except OSError as error: print('no', path, type(error).__name__)
"""
_CALL = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def said(result): print('GOT' if result >= 0 else f'no {os.strerror(ctypes.get_errno())}')
"""
_CONNECT = """
import socket
def reach(family, address):
    try:
        with socket.socket(family) as s: s.settimeout(5); s.connect(address); print('GOT')
    except OSError as error: print('no', error)
"""
ATTEMPTS = (
    Attempt(
        "a key in its own environment",
        "the environment is an allow-list",
        "stopped",
        "import os\nif any('planted' in value for value in os.environ.values()): print('GOT')",
    ),
    Attempt(
        "the host's environment",
        "a process namespace; without one, the host is undumpable and root's kernel has no CAP_SYS_PTRACE",
        "stopped",
        _READ + "got('/proc/{host}/environ')",
    ),
    Attempt(
        "the host's memory",
        "a process namespace; without one, the host is undumpable and root's kernel has no CAP_SYS_PTRACE",
        "stopped",
        "try:\n    with open('/proc/{host}/mem', 'rb'): print('GOT')\nexcept OSError as error: print('no', error)",
    ),
    Attempt(
        "to attach to the host as a debugger",
        "a process namespace; without one, as for its memory",
        "stopped",
        _CALL + "said(libc.ptrace(0x4206, {host}, 0, 0))",
    ),
    Attempt(
        # Linux lets a user's processes read each other's, and the shell is none of ours; root's need CAP_SYS_PTRACE
        "the environment of the shell that exported the key",
        "a process namespace",
        "either",
        _READ + "got('/proc/{shell}/environ')",
    ),
    Attempt(
        "every process's environment, and their own files under it",
        "a process namespace",
        "either",
        _READ
        + "import glob\nfor path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/root{home}/*'): got(path)",
    ),
    Attempt(
        "credentials where tools look for them",
        "a home of its own",
        "stopped",
        _READ + "for name in '.netrc .aws/credentials .config/openai/auth.json .ssh/id_ed25519'.split():\n"
        "    got(os.path.expanduser('~/' + name)); got(os.path.join(os.environ['HOME'], name))",
    ),
    Attempt(
        "credentials by their full path",
        "the folder is not shown",
        "succeeds",
        _READ + "got('{home}/.netrc'); got('{home}/.aws/credentials'); got('{home}/notes.txt')",
    ),
    Attempt(
        "the key that signs another kernel's messages",
        "connection files are removed once the host is connected",
        "stopped",
        "import glob, os\n"
        "for path in glob.glob('{tmp}/rlm_jupyter*/**/k.json', recursive=True):\n"
        "    if 'key' in open(path).read(): print('GOT', path)",
    ),
    Attempt(
        "another kernel's sockets",
        "they are removed once the host is connected",
        "stopped",
        "import os\nfor folder, _, names in os.walk('{tmp}'):\n"
        "    for name in names:\n        if name.startswith('k-ipc'): print('GOT', folder, name)",
    ),
    Attempt(
        "the keys that Linux keeps for a user",
        "a filter of system calls",
        "either",
        _CALL + "said(libc.syscall({'x86_64': 250, 'aarch64': 219}[os.uname().machine], 0, -4, 1))",
    ),
    Attempt(
        "a server on this machine",
        "a network namespace",
        "succeeds",
        _CONNECT + "reach(socket.AF_INET, ('127.0.0.1', {port}))",
    ),
    Attempt(
        "an address outside",
        "a network namespace",
        "either",
        _CONNECT + "reach(socket.AF_INET, ('1.1.1.1', 53))",
    ),
    Attempt(
        "a socket that has a name and no file",
        "a network namespace",
        "succeeds",
        _CONNECT + "reach(socket.AF_UNIX, '\\0{abstract}')",
    ),
    Attempt(
        "a service's socket, such as D-Bus or Docker have",
        "the folder is not shown",
        "succeeds",
        _CONNECT + "reach(socket.AF_UNIX, '{home}/service.sock')",
    ),
    Attempt(
        "the machine around a virtual one",
        "a filter of system calls; this family of sockets knows no network namespace",
        "either",
        "import socket\ntry: socket.socket(40, socket.SOCK_STREAM).close(); print('GOT')\n"
        "except OSError as error: print('no', error)",
    ),
    Attempt(
        "system calls that no filter sees (io_uring)",
        "a filter of system calls",
        "either",
        _CALL + "said(libc.syscall(425, 1, ctypes.byref(ctypes.create_string_buffer(120))))",
    ),
    Attempt(
        "to write a file outside",
        "the folder is not shown",
        "succeeds",
        "try:\n    open('{outside}/written', 'w').close(); print('GOT')\nexcept OSError as error: print('no', error)",
    ),
    Attempt(
        "to change Python's own packages",
        "they are shown read-only",
        "either",
        "import os, sys, IPython\nfor folder in (sys.prefix + '/lib', os.path.dirname(IPython.__file__), '/usr/lib', '/etc', '/'):\n"
        "    if os.access(folder, os.W_OK): print('GOT', folder)",
    ),
    Attempt(
        "to change how the system runs",
        "/proc is read-only, and there is no capability",
        "either",
        "for path in '/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger':\n"
        "    try:\n        with open(path, 'r+b'): print('GOT', path)\n    except OSError as error: print('no', error)",
    ),
    Attempt(
        "to become root in a namespace of its own",
        "no further user namespaces",
        "either",
        "import os\nif os.fork() == 0:\n    import ctypes\n    os._exit(ctypes.CDLL(None).unshare(0x10000000) == 0)\n"
        "print('GOT' if os.waitstatus_to_exitcode(os.wait()[1]) else 'no')",
    ),
    Attempt(
        "to signal the host",
        "a process namespace",
        "succeeds",
        "import os\ntry: os.kill({host}, 0); print('GOT')\nexcept OSError as error: print('no', error)",
    ),
    Attempt(
        "to raise its limits",
        "they are hard, and root's kernel has no CAP_SYS_RESOURCE",
        "stopped",
        "import resource\nfor limit in (resource.RLIMIT_CORE, resource.RLIMIT_DATA):\n"
        "    try:\n        resource.setrlimit(limit, (-1, -1)); print('GOT', limit)\n"
        "    except (OSError, ValueError) as error: print('no', error)",
    ),
    Attempt(
        "more rights through a program that gives them",
        "no new privileges",
        "stopped",
        "print('GOT' if 'NoNewPrivs:\\t1' not in open('/proc/self/status').read() else 'no')",
    ),
    Attempt(
        "files that the host has open",
        "none but the pipes of its own are handed on",
        "stopped",
        "import os\nfor fd in os.listdir('/proc/self/fd'):\n    try: where = os.readlink(f'/proc/self/fd/{fd}')\n"
        "    except OSError: continue\n"
        "    if 'memfd' in where or '{home}' in where or 'owner' in where: print('GOT', where)",
    ),
)
