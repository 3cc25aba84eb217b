"""Whatever a server says of itself, on any of its pages: it is taken as far as it makes sense, and nothing hangs."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rlm_jupyter.models.discovery import listed
from rlm_jupyter.models.endpoint import Endpoint, find_endpoint
from rlm_jupyter.models.http import FetchError, fetch
from rlm_jupyter.models.providers import PROVIDERS
from rlm_jupyter.models.servers import Server, look
from tests.unit.models.test_malformed import with_odd_value

PAGES: dict[str, dict[str, Any]] = {
    "llamacpp": {
        "models": {"data": [{"id": "m", "aliases": ["a"], "meta": {"n_ctx": 4096}, "status": {"value": "loaded"}}]},
        "props": {"total_slots": 2, "modalities": {"vision": True, "audio": False}},
    },
    "vllm": {"models": {"data": [{"id": "m", "max_model_len": 4096, "type": "model"}]}},
    "openrouter": {"models": {"data": [{"id": "m", "context_length": 9, "architecture": {"input_modalities": ["image"], "output_modalities": ["text"]}}]}},
    "lmstudio": {"models": {"data": [{"id": "m", "state": "loaded", "type": "llm", "loaded_context_length": 4096}]}},
    "ollama": {
        "tags": {"models": [{"name": "m:latest"}]},
        "ps": {"models": [{"name": "m:latest", "context_length": 4096}]},
        "show": {"capabilities": ["completion", "vision"], "model_info": {"q.context_length": 8192}, "parameters": "num_ctx 4096"},
    },
}  # fmt: skip
MUTATIONS = 120
"""For each kind of server."""


class Handler(BaseHTTPRequestHandler):
    send: Callable[[BaseHTTPRequestHandler], None]

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        with suppress(OSError):
            type(self).send(self)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.do_GET()


@contextmanager
def serving(send: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    handler = type("Serving", (Handler,), {"send": staticmethod(send)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def endpoint(kind: str, url: str) -> Endpoint:
    return find_endpoint(PROVIDERS[kind], "m", base_url=f"{url}/v1", api_key="k")


def check(server: Server) -> None:
    for model in server.models:
        assert model.name
        assert model.name.isprintable()
        assert len(model.name) <= 200
        assert model.window is None or 0 < model.window <= 10**9
        assert type(model.embeds) is type(model.is_loaded) is bool
        assert all(type(alias) is str for alias in model.aliases)
    assert server.slots is None or server.slots > 0
    server.find("m")
    if server.models:
        listed(server.models)


@pytest.mark.parametrize("kind", PAGES)
def test_pages_of_any_shape_are_taken_as_far_as_they_make_sense(kind: str) -> None:
    pages: dict[str, bytes] = {}

    def send(http: BaseHTTPRequestHandler) -> None:
        page = next((page for name, page in pages.items() if name in http.path), b"{}")
        http.send_response(200)
        http.end_headers()
        http.wfile.write(page)

    found = 0
    with serving(send) as url:
        for seed in range(MUTATIONS):
            chance = random.Random(seed)
            pages.update({name: json.dumps(page).encode() for name, page in PAGES[kind].items()})
            if seed:
                name = chance.choice(list(pages))
                pages[name] = with_odd_value(b"data: " + pages[name], chance).removeprefix(b"data: ")
            try:
                server = look(endpoint(kind, url), seconds=20)
            except FetchError:
                raise
            except Exception as error:
                raise AssertionError(f"seed {seed}: {pages}") from error
            check(server)
            found += bool(server.models)
    assert found > MUTATIONS // 3


@pytest.mark.parametrize(
    "page", [b"[" * 200_000, b'{"a":' * 100_000, b"\xff\xfe", b"1" * 5000, b"<html>", b"", b"null", b'{"a": ' + b"1" * 5000 + b"}"]
)  # fmt: skip
@pytest.mark.parametrize("code", [200, 500])
def test_what_is_no_json_is_an_empty_page_or_an_error(page: bytes, code: int) -> None:
    def send(http: BaseHTTPRequestHandler) -> None:
        http.send_response(code)
        http.end_headers()
        http.wfile.write(page)

    with serving(send) as url:
        if code == 200:
            assert fetch(url, seconds=20) == {}
        else:
            with pytest.raises(FetchError) as caught:
                fetch(url, seconds=20)
            assert caught.value.status == code
            assert len(caught.value.said) <= 300


def test_a_page_without_an_end_is_not_read_to_its_end() -> None:
    sent = 0

    def send(http: BaseHTTPRequestHandler) -> None:
        nonlocal sent
        http.send_response(200)
        http.end_headers()
        http.wfile.write(b'{"a": "')
        while sent < 200 << 20:
            http.wfile.write(b"x" * 65536)
            sent += 65536

    with serving(send) as url:
        assert fetch(url, seconds=60) == {}
    assert sent < 40 << 20


@pytest.mark.parametrize("drips", ["headers", "body"])
def test_a_page_that_drips_is_given_up_in_time(drips: str) -> None:
    """Never silent for long, and never there."""
    over = threading.Event()

    def drip() -> None:
        client, _ = listener.accept()
        with client, suppress(OSError):
            client.sendall(b"HTTP/1.1 200 OK\r\n" + (b"" if drips == "headers" else b"\r\n"))
            while not over.wait(0.05):
                client.sendall(b"x-more: yes\r\n" if drips == "headers" else b" ")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        began = time.monotonic()
        with pytest.raises(FetchError, match="timed out") as caught:
            fetch(f"http://127.0.0.1:{listener.getsockname()[1]}/", seconds=0.5)
        assert caught.value.status is None
        assert time.monotonic() - began < 30
        over.set()
        thread.join(10)
