"""Servers of one's own: what they say of themselves is used, and what is wrong is named before anything is asked."""

import asyncio
import socket
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from rlm_jupyter.frontends.cli.commands import models as served
from rlm_jupyter.models import discovery as nearby
from rlm_jupyter.models import load_model
from rlm_jupyter.models.hosted import HostedModel
from rlm_jupyter.models.priced import PricedModel
from rlm_jupyter.models.pricing import Price
from rlm_jupyter.types.errors import ContextWindowError, ModelError, ModelUnavailableError
from rlm_jupyter.types.values import Message, Usage
from tests.support.local_servers import LocalServer, nobody
from tests.support.loopback import Fault, Loopback

ASK = [Message("user", "What is it?")]
KINDS = ["llamacpp", "vllm", "ollama", "lmstudio"]


@pytest.fixture
def finding(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Servers are looked for, but at addresses only that a test names."""
    monkeypatch.setenv("RLM_FIND_SERVERS", "1")
    monkeypatch.setattr(nearby, "LOOK_SECONDS", 10.0)  # on a busy machine even this one is slow to answer
    monkeypatch.setattr(nearby, "_known", (float("-inf"), []))
    with nobody() as url:
        for kind in KINDS:
            monkeypatch.setenv(f"{kind.upper()}_BASE_URL", f"{url}/v1")
        yield
    nearby._known = (float("-inf"), [])


def connect(server: Loopback, name: str, **options: Any) -> HostedModel:
    model = load_model(name, base_url=server.openai_url, **options)
    assert isinstance(model, HostedModel)
    return model


async def prepared(model: HostedModel, seconds: float | None = None) -> list[str]:
    told: list[str] = []
    await model.prepare(told.append, asyncio.Event(), seconds)
    return told


@pytest.mark.parametrize(
    ("kind", "says", "sees"),
    [
        ("llamacpp", True, True),
        ("llamacpp", False, False),
        ("llamacpp", None, None),
        ("ollama", True, True),
        ("ollama", False, False),
        ("lmstudio", True, True),
        ("lmstudio", False, False),
        ("vllm", None, None),
    ],
)
async def test_a_server_says_whether_its_model_sees(kind: str, says: bool | None, sees: bool | None) -> None:
    with LocalServer(kind=kind, models={"coder": 9000}, sees=says) as server:
        model = connect(server, f"{kind}/coder")
        await prepared(model)
        assert model.abilities.sees is sees
        assert connect(server, f"{kind}/coder", sees=True).abilities.sees is True


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_says_how_much_its_model_reads_and_how_many_requests_it_takes(kind: str) -> None:
    with LocalServer(kind=kind, models={"other": 4096, "coder": 9000}, slots=2) as server:
        model = connect(server, f"{kind}/coder")
        assert await prepared(model) == []
        assert model.window == 9000
        assert model.slots == {"llamacpp": 2, "vllm": None}.get(kind, 4)
        assert PricedModel(model, Price(1, 1)).abilities.slots == model.abilities.slots == model.slots
        assert model.cost(Usage(1000, 1000)) == 0.0
        set_by_hand = connect(server, f"{kind}/coder", window=5000)
        await prepared(set_by_hand)
        assert set_by_hand.window == 5000


@pytest.mark.parametrize("kind", ["ollama", "lmstudio"])
async def test_what_is_loaded_at_the_first_request_is_loaded_before_because_its_window_is_not_known(kind: str) -> None:
    with LocalServer(kind=kind, models={"qwen3:latest": 9000}, loading=0.3) as server:
        model = connect(server, f"{kind}/qwen3:latest")
        [told] = await prepared(model)
        assert told == f"{model.endpoint.preset.title} at {server.openai_url} loads qwen3:latest: waiting for it."
        assert model.window == 9000


@pytest.mark.parametrize(
    ("variable", "value", "url"),
    [
        ("OLLAMA_HOST", "0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("OLLAMA_HOST", "0.0.0.0:1", "http://127.0.0.1:1/v1"),
        ("OLLAMA_HOST", ":1", "http://127.0.0.1:1/v1"),
        ("OLLAMA_HOST", "gpu.lan", "http://gpu.lan:11434/v1"),
        ("OLLAMA_HOST", "https://gpu.lan", "https://gpu.lan/v1"),
        ("OLLAMA_HOST", "[::1]:5", "http://[::1]:5/v1"),
        ("OLLAMA_BASE_URL", "http://127.0.0.1:1/v1/", "http://127.0.0.1:1/v1"),
        ("OLLAMA_BASE_URL", "http://gpu.lan/behind/v1", "http://gpu.lan/behind/v1"),
    ],
)
def test_addresses_are_taken_as_people_write_them(
    variable: str, value: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    model = load_model("ollama/x")
    assert isinstance(model, HostedModel)
    assert model.endpoint.url == url


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_is_not_there_is_named_with_its_address_and_how_to_start_it(kind: str) -> None:
    with nobody() as place:
        url = f"{place}/v1"
        model = load_model(f"{kind}/coder", base_url=url)
        assert isinstance(model, HostedModel)
        with pytest.raises(ModelUnavailableError) as caught:
            await prepared(model)
    assert url in str(caught.value)
    assert model.endpoint.preset.start in str(caught.value)


async def test_a_server_that_loads_its_model_is_waited_for_and_that_is_said_once() -> None:
    with LocalServer(loading=1.2) as server:
        model = connect(server, "llamacpp/coder")
        assert await prepared(model) == [f"llama.cpp at {server.openai_url} loads coder: waiting for it."]
        assert (await model.complete(ASK, max_output_tokens=9)).text == "ok"


async def test_no_longer_than_there_is_time_and_nobody_wants_to_stop() -> None:
    with LocalServer(loading=60) as server:
        with pytest.raises(ModelUnavailableError, match="had not loaded its model when the time was up"):
            await prepared(connect(server, "llamacpp/coder"), 0.3)
        stop = asyncio.Event()
        waiting = asyncio.create_task(connect(server, "llamacpp/coder").prepare(lambda _: stop.set(), stop))
        await asyncio.wait_for(waiting, 30)


async def test_a_name_that_the_server_does_not_know_is_said() -> None:
    with LocalServer() as server:
        model = connect(server, "llamacpp/gpt-9")
        await prepared(model)
        assert model.remark == f"llama.cpp at {server.openai_url} serves coder, which answers for 'gpt-9'."
        usual = connect(server, "llamacpp/local")
        await prepared(usual)
        assert (usual.remark, usual.window) == ("", 16_384)
    for kind in ("vllm", "ollama", "lmstudio"):
        with LocalServer(kind=kind, models={"a": 1, "b:latest": 2}) as server:
            with pytest.raises(ModelError, match=r" serves a, b:latest, not that model\."):
                await prepared(connect(server, f"{kind}/gpt-9"))
            if kind == "ollama":
                await prepared(connect(server, "ollama/b"))


async def test_another_model_that_answers_is_noticed_where_nothing_was_listed() -> None:
    def other(_: object) -> str:
        server.requests[-1].body["model"] = "other"
        return "ok"

    with Loopback([other]) as server:
        model = connect(server, "lmstudio/mine")
        await model.complete(ASK, max_output_tokens=9)
    assert model.remark == f"LM Studio at {server.openai_url} answers for 'mine' with other."


@pytest.mark.parametrize("kind", ["ollama", "lmstudio"])
async def test_a_model_that_only_makes_embeddings_is_refused_by_name(kind: str) -> None:
    with (
        LocalServer(kind=kind, models={"nomic": 2048}, embeds=["nomic"]) as server,
        pytest.raises(ModelError, match=f"{kind}/nomic makes embeddings only"),
    ):
        await prepared(connect(server, f"{kind}/nomic"))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault.status(500, "image input is not supported - hint: provide the mmproj"), "image input is not supported"),
        (Fault.status(501, "This server does not do that."), r"can't do that \(501\)"),
    ],
)
async def test_what_no_repetition_mends_is_not_repeated(fault: Fault, said: str) -> None:
    with Loopback([fault]) as server, pytest.raises(ModelError, match=said) as caught:
        await connect(server, "llamacpp/x").complete(ASK, max_output_tokens=9)
    assert not isinstance(caught.value, ModelUnavailableError)


async def test_slots_that_share_their_memory_are_asked_more_slowly() -> None:
    with (
        Loopback([Fault.status(500, "Context size has been exceeded.")]) as server,
        pytest.raises(ModelUnavailableError) as caught,
    ):
        await connect(server, "llamacpp/x").complete(ASK, max_output_tokens=9)
    assert caught.value.overloaded


async def test_a_refusal_teaches_the_window() -> None:
    with Loopback([Fault.overflow(30_030, 16_384)]) as server:
        model = connect(server, "llamacpp/x")
        with pytest.raises(ContextWindowError):
            await model.complete(ASK, max_output_tokens=9)
    assert model.window == 16_384


async def test_a_proxy_is_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with LocalServer() as server:
        model = connect(server, "llamacpp/coder")
        await prepared(model)
        assert (await model.complete(ASK, max_output_tokens=9)).text == "ok"


def test_servers_that_run_are_offered_by_name(finding: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert nearby.offer() == ""
    monkeypatch.setattr(nearby, "_known", (float("-inf"), []))
    models = {"qwen3:8b": 4096, "nomic": 2048}
    with LocalServer(kind="lmstudio", models=models, embeds=["nomic"]) as server:
        monkeypatch.setenv("LMSTUDIO_BASE_URL", server.url)
        place = server.url.removeprefix("http://")
        assert nearby.offer() == f"LM Studio at {place} serves qwen3:8b: -m lmstudio/qwen3:8b."
        assert nearby.choices("lm") == ["lmstudio/"]
        assert nearby.choices("lmstudio/") == ["lmstudio/qwen3:8b"]
        assert nearby.choices("vllm/") == ["vllm/Qwen/Qwen3-8B"]
        monkeypatch.setenv("RLM_FIND_SERVERS", "0")
        assert nearby.offer() == ""


def test_whatever_else_listens_there_holds_nobody_up(finding: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def babble() -> None:
        for said in (b"220 smtp ready\r\n", b"HTTP/1.1 200 OK\r\n\r\n[]", b"HTTP/1.1 200 OK\r\n\r\n\xff{"):
            client, _ = babbling.accept()
            with client:
                client.recv(1 << 16)
                client.sendall(said)

    def drip() -> None:
        client, _ = dripping.accept()
        with client, suppress(OSError):
            while True:  # never silent for long
                client.sendall(b"HTTP/1.1 200 OK\r\nx-more: yes\r\n" if not drops else b"x-more: yes\r\n")
                drops.append(1)
                time.sleep(0.1)

    drops: list[int] = []
    monkeypatch.setattr(nearby, "LOOK_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as dripping, socket.create_server(("127.0.0.1", 0)) as babbling:
        threading.Thread(target=babble, daemon=True).start()
        threading.Thread(target=drip, daemon=True).start()
        monkeypatch.setenv("LMSTUDIO_BASE_URL", f"127.0.0.1:{dripping.getsockname()[1]}")
        for kind in ("llamacpp", "vllm", "ollama"):
            monkeypatch.setenv(f"{kind.upper()}_BASE_URL", f"127.0.0.1:{babbling.getsockname()[1]}")
        began = time.monotonic()
        assert nearby.nearby() == []
        assert time.monotonic() - began < 20  # and not as long as they send


def listed(provider: str | None, base_url: str | None = None, *, as_json: bool = False) -> int:
    return served.run(Namespace(provider=provider, base_url=base_url, json=as_json))


def test_what_is_served_is_listed(
    finding: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalServer(kind="ollama", models={"qwen3:8b": 4096, "nomic": 2048}, embeds=["nomic"]) as server:
        assert listed("ollama", server.url) == 0
        out, err = capsys.readouterr()
        assert out.splitlines() == ["ollama/qwen3:8b  4,096 tokens", "ollama/nomic     2,048 tokens, embeddings only"]
        assert err == f"Ollama at {server.openai_url}:\n"
    with nobody() as url:
        assert listed("ollama", url) == 1
    assert "not running. Start it (ollama serve)" in capsys.readouterr().err
    with LocalServer(models={"models/gpt-9": 1234}) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-mine")
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        assert listed(None, as_json=True) == 0
        assert '"name": "openai/gpt-9", "window": 1234' in capsys.readouterr().out
