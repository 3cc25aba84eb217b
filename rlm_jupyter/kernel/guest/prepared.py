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
from pathlib import Path
from typing import Any

from IPython.core.application import BaseIPythonApplication
from IPython.core.profiledir import ProfileDir
from IPython.paths import get_ipython_dir
from IPython.utils.path import get_home_dir

from rlm_jupyter.kernel.guest.wire import Wire

_LATER = """
    array code faulthandler pdb resource IPython.core.completerlib IPython.core.debugger IPython.core.logger
    IPython.core.oinspect IPython.extensions.storemagic IPython.utils.wildcard tornado.platform.asyncio
    zmq.utils.garbage rlm_jupyter.kernel.guest.self_fork
"""
"""What a kernel imports when it is made, and in its first cells."""


class _EmptyProfile(ProfileDir):
    """A profile whose folders are made by whoever writes to them: IPython makes four, and nobody here does."""

    def _mkdir(self, path: str, mode: int | None = None) -> bool:
        return False

    def move(self, location: Path) -> None:
        """Be the profile at another place; IPython allows none, and it takes five times as long to make one."""
        self._location_isset = False
        self.location = str(location)
        location.mkdir(parents=True, exist_ok=True)  # inside a sandbox it is called as the template's, and is another


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
        self.ipython_dir = get_ipython_dir()
        self._profile.move(Path(self.ipython_dir) / "profile_default")
        shell = app.kernel.shell
        shell.ipython_dir, shell.home_dir = self.ipython_dir, get_home_dir()
        app.session.session, app.session.pid = str(uuid.uuid4()), os.getpid()

    _profile: _EmptyProfile
