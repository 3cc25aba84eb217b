"""`load_model`: what a name stands for, and what is said when something is missing."""

import json
import subprocess
import sys

import pytest

from rlm_jupyter.models import load_model
from rlm_jupyter.models.abilities import abilities_of
from rlm_jupyter.models.hosted import HostedModel
from rlm_jupyter.models.providers import EMBEDDED, PROVIDERS
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.values import Message, Usage
from tests.support.loopback import Loopback


def endpoint_of(name, **arguments):
    model = load_model(name, **arguments)
    assert isinstance(model, HostedModel)
    return model.endpoint


HOSTED = [preset for preset in PROVIDERS.values() if preset.wire not in EMBEDDED]


@pytest.mark.parametrize("preset", HOSTED, ids=lambda preset: preset.provider)
def test_every_provider_makes_a_model_of_its_example(preset, monkeypatch):
    for variable in preset.key_variables[:1]:
        monkeypatch.setenv(variable, "a-secret-key")
    model = load_model(preset.example, base_url=preset.base_url or "https://mine.example")
    assert model.name == preset.example
    assert "a-secret-key" not in repr(model)
    assert "a-secret-key" not in repr(vars(model))


@pytest.mark.parametrize("preset", [preset for preset in HOSTED if preset.needs_key], ids=lambda p: p.provider)
def test_a_missing_key_is_named_before_anything_is_asked(preset):
    with pytest.raises(ConfigurationError) as caught:
        load_model(preset.example, base_url="https://mine.example")
    text = str(caught.value)
    assert f"Set {' or '.join(preset.key_variables)} in the environment or pass api_key" in text
    assert "`extractive`" in text
    assert f"%rlm_key {preset.provider}" in caught.value.for_notebook
    for elsewhere in (caught.value.for_notebook, caught.value.for_command_line):
        assert preset.key_variables[0] in elsewhere
        assert "api_key" not in elsewhere
    for line in (text, caught.value.for_notebook, caught.value.for_command_line):
        assert "\n" not in line


@pytest.mark.parametrize(
    ("name", "arguments", "part"),
    [
        ("zzz-5", {}, "providers are openai, anthropic, llamacpp"),
        ("mistake/gpt-5", {}, "No provider 'mistake'"),
        ("", {}, "No provider ''"),
        ("openai", {}, "`openai/gpt-5.4-mini`"),
        ("openai/", {}, "names no model"),
        ("azure_openai/d", {"api_key": "k"}, "set AZURE_OPENAI_ENDPOINT"),
        ("openai/x", {"api_key": "k", "base_url": "127.0.0.1:8080"}, "http:// or https://"),
        ("llamacpp/x", {"base_url": "ftp://127.0.0.1:8080"}, "http:// or https://"),
        (
            "openai/x",
            {"api_key": "k", "base_url": "http://[::1"},
            "is no address (Invalid IPv6 URL): write one such as",
        ),
        ("llamacpp/x", {"base_url": "http://[::1"}, "is no address (Invalid IPv6 URL)"),
        ("llamacpp/x", {"base_url": "http://127.0.0.1:abc/v1"}, "is no address (Port could not be cast"),
        ("anthropic/x", {"api_key": "k", "base_url": "http://127.0.0.1:99999"}, "is no address (Port out of range"),
        ("openai/x", {"api_key": "k", "base_url": "http://my server/v1"}, "holds characters that no address has"),
        ("openai/x", {"api_key": "k", "base_url": "http://server\x7f/v1"}, "holds characters that no address has"),
        ("openai/x", {"api_key": "k with space"}, "api_key holds characters"),
        ("openai/x", {"api_key": 12345}, "api_key is a str, not int"),
        ("openai/x", {"api_key": "“quoted”"}, "api_key holds characters"),
        ("llamacpp/x", {"window": 0}, "not 0"),
        ("llamacpp/x", {"sees": "no"}, "sees is True or False, not 'no'"),
        ("llamacpp/x", {"window": "8k"}, "a window is a number of tokens above zero, not '8k'"),
        ("extractive/other", {}, "extractive/bm25"),
        ("extractive", {"api_key": "k"}, "neither base_url nor api_key"),
        ("scripted/none-such.json", {}, "can't be read"),
        (3, {}, "not int"),
    ],
)
def test_a_mistake_gets_one_clear_line(name, arguments, part):
    with pytest.raises(ConfigurationError) as caught:
        load_model(name, **arguments)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_environment_gives_key_and_address_and_arguments_win(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", " from-environment\n")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://gateway.example/v1/")
    endpoint = endpoint_of("openai/x")
    assert (endpoint.url, endpoint.key, endpoint.key_variable) == (
        "https://gateway.example/v1",
        "from-environment",
        "OPENAI_API_KEY",
    )
    endpoint = endpoint_of("openai/x", base_url="https://other.example", api_key="mine")
    assert (endpoint.url, endpoint.key, endpoint.key_variable) == ("https://other.example", "mine", None)


def test_an_openai_key_does_not_go_to_other_servers(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    assert endpoint_of("llamacpp/x").key is None


def test_a_model_is_given_back_as_it_is():
    model = ScriptedModel([])
    assert load_model(model) is model
    with pytest.raises(ConfigurationError, match="made already"):
        load_model(model, window=5)


def test_a_model_s_name_may_hold_slashes():
    assert endpoint_of("openrouter/anthropic/claude-x", api_key="k").model == "anthropic/claude-x"


@pytest.mark.parametrize("source", [["one", "two"], {"replies": ["one", "two"], "subcalls": ["sub"]}])
async def test_a_script_is_read_from_a_file(tmp_path, source):
    path = tmp_path / "script.json"
    path.write_text(json.dumps(source))
    model = load_model(f"scripted/{path}", window=7)
    assert (model.name, model.window, model.cost(Usage(5, 5))) == (f"scripted/{path}", 7, 0.0)
    system = [Message("system", "s"), Message("user", "u")]
    assert [(await model.complete(system, max_output_tokens=9)).text for _ in range(2)] == ["one", "two"]


@pytest.mark.parametrize(
    "text",
    ["{", '{"answers": []}', "[1]", '"text"', '{"replies": ["x"], "subcalls": [2]}', '{"replies": [], "sees": 1}'],
)
def test_a_broken_script_is_refused(tmp_path, text):
    path = tmp_path / "script.json"
    path.write_text(text)
    with pytest.raises(
        ConfigurationError, match=r"script\.json: (the script is no JSON|a script is a list|a script has replies)"
    ):
        load_model(f"scripted/{path}")


def test_a_script_that_is_named_without_its_ending_is_refused_with_what_to_do(tmp_path):
    path = tmp_path / "script.json"
    path.write_text("[]")
    with pytest.raises(ConfigurationError, match=r"No such file.*\. Did you mean scripted/.*script\.json\?$"):
        load_model(f"scripted/{path.with_suffix('')}")
    with pytest.raises(ConfigurationError, match=r"No such file or directory\.$"):
        load_model(f"scripted/{path.with_name('other')}")


def test_a_script_may_say_that_it_sees(tmp_path):
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"replies": ["x"], "sees": True}))
    assert abilities_of(load_model(f"scripted/{path}")).sees is True
    assert abilities_of(ScriptedModel([])).sees is False
    with pytest.raises(ConfigurationError, match=r'takes no `sees`\. Its script says so: "sees": true\.'):
        load_model(f"scripted/{path}", sees=True)


def test_importing_and_loading_bring_in_no_sdk():
    code = (
        "import sys; import rlm_jupyter.models as m\n"
        "m.load_model('llamacpp/x'); m.load_model('anthropic/x', api_key='k'); m.load_model('extractive')\n"
        "heavy = {'openai', 'anthropic', 'httpx', 'httpx2', 'pydantic', 'numpy', 'bm25s', 'genai_prices'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "arguments", "headers", "absent"),
    [
        ("openai/m", {"api_key": "k"}, {"authorization": "Bearer k"}, ()),
        ("llamacpp/m", {}, {"authorization": "Bearer none"}, ("openai-organization",)),
        ("portkey/m", {"api_key": "k"}, {"x-portkey-api-key": "k", "x-portkey-provider": "@prod"}, ()),
        ("azure_openai/m", {"api_key": "k"}, {"api-key": "k"}, ("authorization",)),
    ],
)
async def test_what_goes_over_the_wire(monkeypatch, name, arguments, headers, absent):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-mine")
    monkeypatch.setenv("PORTKEY_PROVIDER", "@prod")
    with Loopback() as server:
        at = server.url if name.startswith("azure") else server.openai_url
        model = load_model(name, base_url=at, **arguments)
        await model.complete([Message("user", "hi")], max_output_tokens=33)
    request = server.requests[0]
    sent = {key.lower(): value for key, value in request.headers.items()}
    assert {key: sent.get(key) for key in headers} == headers
    assert not set(absent) & set(sent)
    cap = "max_completion_tokens" if name.startswith(("openai", "azure")) else "max_tokens"
    assert request.body[cap] == 33
    assert request.body["stream_options"] == {"include_usage": True}
    if name.startswith("azure"):
        assert request.path == "/openai/deployments/m/chat/completions?api-version=2024-10-21"


async def test_azure_and_anthropic_take_tokens_too(monkeypatch):
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "azure-token")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "anthropic-token")
    with Loopback() as server:
        for name in ("azure_openai/m", "anthropic/m"):
            await load_model(name, base_url=server.url).complete([Message("user", "hi")], max_output_tokens=33)
    sent = [{key.lower(): value for key, value in request.headers.items()} for request in server.requests]
    assert [headers["authorization"] for headers in sent] == ["Bearer azure-token", "Bearer anthropic-token"]
    assert not {"api-key", "x-api-key"} & (set(sent[0]) | set(sent[1]))
