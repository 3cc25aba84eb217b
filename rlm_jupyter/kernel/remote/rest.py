"""`Rest`: what is asked of a Jupyter server over its REST interface, about one kernel."""

from __future__ import annotations

from typing import Any

import httpx

from rlm_jupyter.kernel.remote.server import JupyterServer
from rlm_jupyter.types.errors import KernelStartError
from rlm_jupyter.types.quoted import quoted

_SECONDS = 20.0
"""How long a request may take; a kernel's start takes longer."""
_START_SECONDS = 90.0
_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
"""In the words of OpenSSL."""


class Rest:
    """Requests to a server, about one kernel; made and closed on one event loop."""

    def __init__(self, server: JupyterServer) -> None:
        self._server = server
        self._client = httpx.AsyncClient(headers=server.headers, timeout=_SECONDS)

    async def start(self, kernel_name: str | None) -> str:
        """Start a kernel, and return its id.

        Raises
        ------
        KernelStartError
            The server can't be reached, refuses, or has no such kernelspec; one line says which.
        """
        name = await self._kernelspec(kernel_name)
        answer = await self._ask("POST", "/api/kernels", json={"name": name} if name else {}, timeout=_START_SECONDS)
        try:
            return str(answer.json()["id"])
        except (ValueError, KeyError, TypeError):
            raise KernelStartError(f"{self._server.refusal(404)}.") from None

    async def _kernelspec(self, wanted: str | None) -> str | None:
        """Return the kernelspec to start, which is Python's; `None`: the server tells none, and takes its own."""
        try:
            answer = await self._ask("GET", "/api/kernelspecs")
            known = {name: spec["spec"]["language"] for name, spec in answer.json()["kernelspecs"].items()}
            name = wanted or str(answer.json()["default"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise KernelStartError(f"{self._server.refusal(404)}.") from None
        if wanted is not None and wanted not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise KernelStartError(
                f"There is no kernelspec {quoted(wanted)} on {self._server.url}. It has: {quoted(listed)}."
            )
        if str(known.get(name, "python")).lower() != "python":
            raise KernelStartError(
                f"The kernelspec {quoted(name)} on {self._server.url} is {quoted(known[name])}; it must be Python's: "
                "name one by kernel_name."
            )
        return name

    async def is_there(self, kernel_id: str) -> bool:
        """Return whether the server still has the kernel; `True` where it does not say."""
        return await self._try("GET", f"/api/kernels/{kernel_id}") != 404

    async def interrupt(self, kernel_id: str) -> None:
        """Send the kernel an interrupt, if the server can be reached."""
        await self._try("POST", f"/api/kernels/{kernel_id}/interrupt")

    async def end(self, kernel_id: str) -> bool:
        """End the kernel; return whether the server says that it is gone."""
        return await self._try("DELETE", f"/api/kernels/{kernel_id}") in {204, 404}

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _try(self, method: str, path: str) -> int:
        try:
            return (await self._client.request(method, f"{self._server.url}{path}")).status_code
        except (httpx.HTTPError, RuntimeError):  # the second: it was closed
            return 0

    async def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            answer = await self._client.request(method, f"{self._server.url}{path}", **options)
        except httpx.HTTPError as error:
            why = str(error).strip() or type(error).__name__
            mend = "check its address, and that it runs"
            if _UNTRUSTED in why:
                mend = "set SSL_CERT_FILE to the certificate of who signed its own, where you trust that"
            raise KernelStartError(
                f"The Jupyter server at {self._server.url} can't be reached ({why}): {mend}."
            ) from None
        if not answer.is_success:
            raise KernelStartError(f"{self._server.refusal(answer.status_code)}.")
        return answer
