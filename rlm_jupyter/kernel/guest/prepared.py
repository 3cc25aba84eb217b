"""`PreparedApp`: the half of our application that needs no connection, made once by a template and had by each fork.

It is the configuration, and the kernel with its shell, its magics, its completer and its formatters; sockets, threads
and streams are made by each fork for itself, and so are the folders that IPython keeps files in.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import hmac
import importlib
import os
import sys
import uuid
from collections.abc import Awaitable, Coroutine, Mapping, MutableMapping, Sequence
from typing import Any

from IPython.core.application import BaseIPythonApplication
from IPython.core.profiledir import ProfileDir

from rlm_jupyter.kernel.guest.ipc import CONNECTION
from rlm_jupyter.kernel.guest.wire import Wire

_LATER = """
    array code faulthandler pdb resource IPython.core.completerlib IPython.core.debugger IPython.core.logger
    IPython.core.oinspect IPython.extensions.storemagic IPython.utils.wildcard tornado.platform.asyncio
    zmq.utils.garbage rlm_jupyter.kernel.guest.self_fork
"""
"""What a kernel imports when it is made, and in its first cells."""


_FOLDERS = ("security", "log", "startup", "pid", "static")
"""Of a profile."""


class _EmptyProfile(ProfileDir):
    """A profile whose folders are made by whoever writes to them: IPython makes four, and nobody here does."""

    def _mkdir(self, path: str, mode: int | None = None) -> bool:
        return False

    def move(self, location: str) -> None:
        """Be the profile at another place; IPython allows none, and it takes ten times as long to make one."""
        self.unobserve_all()  # who would look for each folder
        self.location = location
        for folder in _FOLDERS:
            setattr(self, f"{folder}_dir", f"{location}/{getattr(self, f'{folder}_dir_name')}")
        for made in (os.path.dirname(location), location):  # noqa: PTH120
            # none above these: a host that wants this kernel no more has removed that. Inside a sandbox it is
            # called as the template's, and is another
            with contextlib.suppress(OSError):
                os.mkdir(made)  # noqa: PTH102


class PreparedApp(BaseIPythonApplication):
    """Stands between our application and IPython's: `prepare` does what `initialize` would."""

    is_prepared = False
    modules: frozenset[str] = frozenset()
    """Names of those that were imported before a fork, which `%reset --aggressive` keeps."""
    shared_memory: frozenset[str] | None = None
    """What was mapped before a fork, and shared with others; `None`: nobody has looked."""

    def prepare(self, argv: Sequence[str]) -> None:
        """Do all that can be done before a fork.

        Parameters
        ----------
        argv
            The arguments of the application, without its connection.
        """
        for name in _LATER.split():
            with contextlib.suppress(ImportError):  # some are of newer releases
                importlib.import_module(name)
        BaseIPythonApplication.initialize(self, [*argv])
        app: Any = self
        app.init_path()
        app.load_connection_info(CONNECTION)
        self.profile_dir = self._profile = _EmptyProfile(location=app.profile_dir.location, parent=self)
        app.kernel = app.kernel_class.instance(
            parent=self, session=app.session, log=self.log, profile_dir=self.profile_dir, user_ns=None
        )
        shell = app.kernel.shell
        if "StoreMagics" not in app.config:  # that may say that variables are restored
            shell.extension_manager.load_extension("storemagic")
            shell.extension_manager.loaded.add("storemagic")  # or it is looked for again, by its short name
        shell.transform_cell("0\n")  # the patterns of the tokenizer take 10 ms to compile
        for pattern in ("*.py", "*.ipy"):  # by which files to run first are looked for
            fnmatch.filter([], pattern)
        hmac.new(b"", digestmod=hashlib.sha256)  # what OpenSSL looks up for the first one
        for kind in (Mapping, MutableMapping, Awaitable, Coroutine):  # these keep what they have answered
            for its in (str, int, dict, bool, type(None)):
                issubclass(its, kind)
        self.is_prepared = True

    def complete(self) -> None:
        """Take the guest in, and note what is imported, and mapped, by now: all that is to be preloaded is."""
        app: Any = self
        app.kernel.move_in(Wire)
        from rlm_jupyter.kernel.guest.fork_obstacles import shared_memory  # Linux

        self.modules, self.shared_memory = frozenset(sys.modules), shared_memory()

    def initialize(self, argv: Any = None) -> None:
        """Read the configuration; in a fork, take that of the template, and folders of its own."""
        if not self.is_prepared:
            super().initialize(argv)
            return
        app: Any = self
        shell = app.kernel.shell
        # where they are, the host says; IPython would look whether they can be written to, and make them anew where a
        # host that wants this kernel no more has removed them
        folder, shell.home_dir = os.environ["IPYTHONDIR"], os.environ["HOME"]
        for one in (app, shell):
            one.unobserve_all("ipython_dir")
            one.ipython_dir = folder
        self._profile.move(f"{folder}/profile_default")
        app.session.session, app.session.pid = str(uuid.uuid4()), os.getpid()

    _profile: _EmptyProfile
