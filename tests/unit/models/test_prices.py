"""What things cost, by the list that is installed."""

import pytest

from rlm_jupyter.models import PROVIDERS, load_model
from rlm_jupyter.models import pricing as prices
from rlm_jupyter.types.values import Usage

MILLION = 1_000_000


def test_cached_input_is_cheaper_and_counted_once():
    plain = prices.cost("openai/gpt-4o", Usage(MILLION))
    cached = prices.cost("openai/gpt-4o", Usage(MILLION, cached_tokens=MILLION))
    assert plain == pytest.approx(2.5)
    assert cached == pytest.approx(1.25)
    assert prices.cost("openai/gpt-4o", Usage(0, MILLION)) == pytest.approx(10)


def test_writing_to_the_cache_costs_more():
    read, written = Usage(1000), Usage(1000, cache_write_tokens=1000)
    name = "anthropic/claude-sonnet-4-5"
    assert prices.cost(name, written) == pytest.approx(1.25 * (prices.cost(name, read) or 0))


@pytest.mark.parametrize("provider", [p.provider for p in PROVIDERS.values() if p.local])
def test_what_is_one_s_own_costs_nothing(provider):
    assert prices.cost(f"{provider}/anything", Usage(MILLION, MILLION)) == 0.0


@pytest.mark.parametrize("name", ["openai/none-such", "azure_openai/my-deployment", "litellm/mine", "nobody/x"])
def test_what_is_not_listed_is_unknown_and_not_free(name):
    assert prices.cost(name, Usage(MILLION, MILLION)) is None
    assert prices.window(name) is None


@pytest.mark.parametrize("name", ["vercel/openai/gpt-4o", "portkey/openai/gpt-4o", "litellm/openai/gpt-4o"])
def test_gateways_are_priced_by_the_maker_s_list(name):
    assert prices.cost(name, Usage(MILLION)) == pytest.approx(2.5)


def test_the_window_is_listed_or_given():
    assert prices.window("openai/gpt-4o") == 128_000
    assert load_model("anthropic/claude-sonnet-4-5", api_key="k").window == 200_000
    assert load_model("openai/gpt-4o", api_key="k", window=9_000).window == 9_000
