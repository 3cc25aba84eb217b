"""`JupyterServer`: the address of a Jupyter server, and its token."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Self
from urllib.parse import urlsplit

from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted

LOCAL = "local"
"""In place of an address: this machine, for a run that is resumed and had its kernel elsewhere."""
TOKEN = "JUPYTER_TOKEN"
"""The variable of the environment that holds the token, where none is given."""


NOT_RUNNING = frozenset({301, 302, 303, 307, 308, 424})
"""Statuses of a hub that answers in place of a server which it has not started, or has stopped."""


@dataclass(frozen=True, slots=True)
class JupyterServer:
    """A Jupyter Server, a Jupyter Kernel Gateway, or a user's server of a JupyterHub."""

    url: str
    """Its base address, without a slash at its end, and without any secret."""
    token: str = field(default="", repr=False)
    variable: str | None = None
    """That of the environment which the token was taken from; `None`: it was handed over."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Be pickled without the token: whoever unpickles it takes that from an environment of their own.

        Raises
        ------
        TypeError
            It was handed over, and stands in no environment.
        """
        if self.token and self.variable is None:
            raise TypeError(f"the token of {self.url} was handed over (token), and goes to no other process")
        return _unpickled, (type(self), self.url, self.variable)

    @classmethod
    def of(cls, kernel: object, token: object = None) -> Self | None:
        """Check an address and a token; the default of that is `JUPYTER_TOKEN`.

        Returns
        -------
        JupyterServer or None
            `None`: kernels are started on this machine, as also `local` says.

        Raises
        ------
        ConfigurationError
            There is a token and no address, or the address is none, or has a secret in it; or a package is missing.
        """
        if kernel is None or kernel == LOCAL:
            if token is not None:
                raise ConfigurationError(
                    "token goes with kernel, the address of a Jupyter server.",
                    notebook="--kernel-token-env goes with --kernel-url, the address of a Jupyter server.",
                    command="--kernel-token-env goes with --kernel-url, the address of a Jupyter server.",
                )
            return None
        if find_spec("websockets") is None or find_spec("httpx") is None:
            raise ConfigurationError("A kernel on a server needs more packages: pip install 'rlm_jupyter[remote]'.")
        if not isinstance(kernel, str) or not isinstance(token, str | None):
            raise ConfigurationError("kernel is the address of a Jupyter server, and token its token: texts.")
        parts = urlsplit(kernel)
        if parts.query or parts.fragment or "@" in parts.netloc:
            # not quoted: it holds a secret
            raise ConfigurationError(
                "Leave the token out of the kernel's address: give it in JUPYTER_TOKEN, or token=….",
                notebook="Leave the token out of the kernel's address: set JUPYTER_TOKEN in the environment.",
                command="Leave the token out of --kernel-url: set JUPYTER_TOKEN in the environment.",
            )
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            raise ConfigurationError(
                f"kernel is the address of a Jupyter server, as https://hub.example/user/me, not {quoted(kernel)}."
            )
        path = parts.path.rstrip("/")
        for page in ("/lab", "/tree"):
            path = path.removesuffix(page)
        found, variable = (os.environ.get(TOKEN, ""), TOKEN) if token is None else (token, None)
        return cls(f"{parts.scheme}://{parts.netloc}{path}", found.strip(), variable)

    @property
    def headers(self) -> dict[str, str]:
        """What proves to it who asks."""
        return {"Authorization": f"token {self.token}"} if self.token else {}

    def websocket(self, kernel_id: str, session: str) -> str:
        """Return the address of a kernel's channels."""
        return f"ws{self.url.removeprefix('http')}/api/kernels/{kernel_id}/channels?session_id={session}"

    def refusal(self, status: int) -> str:
        """Say, as a sentence without its stop, why it answers so."""
        if status in NOT_RUNNING:
            return (
                f"No Jupyter server runs at {self.url} ({status}): start it from its hub, and check its address, such "
                "as https://hub.example/user/NAME, and that JUPYTER_TOKEN is one of that user's"
            )
        if status in {401, 403}:
            what = "refuses the token" if self.token else "wants a token"
            return f"The Jupyter server at {self.url} {what} ({status}): set JUPYTER_TOKEN to one of that server's"
        if status == 404:
            return (
                f"There is no Jupyter server at {self.url} ({status}): give its address as it stands in the browser, "
                "without /lab and what follows"
            )
        return f"The Jupyter server at {self.url} failed ({status}): see its log"


def _unpickled(kind: type[JupyterServer], url: str, variable: str | None) -> JupyterServer:
    token = "" if variable is None else os.environ.get(variable, "").strip()
    return kind(url, token, variable)


def token_in(variable: str) -> str:
    """Return the token that a variable of the environment holds.

    Raises
    ------
    ConfigurationError
        It is not set.
    """
    if not os.environ.get(variable, "").strip():
        option = f"--kernel-token-env: the environment has no variable {quoted(variable)}."
        raise ConfigurationError(
            f"The environment has no variable {quoted(variable)}.", notebook=option, command=option
        )
    return os.environ[variable]
