"""Which model was probably meant by a name that nobody has."""

import pytest
from aiohttp import web

from rlm_jupyter.models import load_model
from rlm_jupyter.models.suggested import priced_model_meant
from rlm_jupyter.types.errors import ConfigurationError, ModelError
from rlm_jupyter.types.values import Message
from tests.support.loopback import Fault, Loopback


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("opnai/gpt-5", "openai/gpt-5"),
        ("anthropc/claude-sonnet-5", "anthropic/claude-sonnet-5"),
        ("OpenAI/gpt-5", "openai/gpt-5"),
        ("gpt-5", "openai/gpt-5"),
        ("claude-sonnet-5", "anthropic/claude-sonnet-5"),
        ("claude-sonet-5", "anthropic/claude-sonnet-5"),
        ("extractiv", "extractive"),
        ("olama", "ollama"),
        ("replies.json", "scripted/replies.json"),
    ],
)
def test_a_provider_that_is_unknown(name: str, meant: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        load_model(name)
    assert str(error.value) == f"No provider {name.partition('/')[0]!r}. Did you mean {meant}?"


@pytest.mark.parametrize("name", ["zzz/gpt-5", "zzz", ""])
def test_where_no_name_comes_near_the_providers_are_listed(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"named `provider/model`, and the providers are .*openai"):
        load_model(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("anthropic/claude-sonet-5", "anthropic/claude-sonnet-5"),
        ("openai/xyz", None),
        ("ollama/claude-sonet-5", None),
        ("zzz/claude-sonet-5", None),
    ],
)
def test_a_model_without_a_price(name: str, meant: str | None) -> None:
    assert priced_model_meant(name) == meant


class Listing(Loopback):
    """A server that refuses every model, and lists those that it has."""

    def routes(self, app: web.Application) -> None:
        for path in ("/v1/models", "/models"):
            app.router.add_get(path, self._list)

    async def _list(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "big-model-2"}, {"id": "small-model"}]})


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("model", "hint"), [("big-modl-2", "Did you mean {}/big-model-2?"), ("other", "no such thing")]
)
async def test_a_model_that_the_server_answers_with_404(wire: str, model: str, hint: str) -> None:
    with Listing([Fault.status(404, "no such thing")]) as server:
        url = server.url if wire == "anthropic" else server.openai_url
        asked = load_model(f"{wire}/{model}", base_url=url, api_key="some-key")
        with pytest.raises(ModelError) as error:
            await asked.complete([Message("user", "?")], max_output_tokens=9)
    assert str(error.value).endswith(hint.format(wire))
