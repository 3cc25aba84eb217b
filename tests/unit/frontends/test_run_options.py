"""The one table of options: as a notebook's magics show it, and that what it takes is what a run is configured with."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from rlm_jupyter.frontends.cli.configuration import limits_of, rlm_of
from rlm_jupyter.frontends.cli.parser import parsed
from rlm_jupyter.frontends.magics.rlm import RLMMagics
from rlm_jupyter.frontends.run_options import OPTIONS, Option, Surface
from rlm_jupyter.kernel import supervisor
from rlm_jupyter.kernel.sandbox import container
from rlm_jupyter.models.pricing import Price
from rlm_jupyter.rlm import RLM
from rlm_jupyter.run.settings import RECORDED, Settings
from rlm_jupyter.types.recorded_options import RecordedOptions

MODEL = "llamacpp/local"
"""It needs no key, and is asked nothing before a run begins."""
RECORDED_OTHERWISE = {
    *("answer", "outputs", "sandbox", "preload", "prices", "termination", "reward"),
    *("tools", "sub_tools", "mcp", "model_options", "sub_model_options", "ledger", "session", "save"),
}
"""What is no plain data, or was there before its field could say that it is recorded."""
OF_THE_QUESTION = {"session", "ledger", "estimate", "result", "rerun", "approve", "here", "background"}
"""Options of how a question is asked: `RLM` is made without them."""


@dataclass(frozen=True)
class Given:
    """An option that is given a value of its own, and where the run's settings must have it."""

    words: str
    """As it is typed, with what it can't be without."""
    read: Callable[[Settings], object]
    held: object
    trait: Any = None
    """What it is in `%config`, where that is written otherwise than it is held."""


def limit(name: str, value: float) -> Given:
    """A limit, which stands in `Limits` under its name."""
    return Given(f"--{name.replace('_', '-')} {value}", lambda settings: getattr(settings.limits, name), value)


GIVEN = {
    "model": Given("--model ollama/qwen3:8b", lambda settings: settings.routing.root.name, "ollama/qwen3:8b"),
    "sub_model": Given("--sub-model vllm/small", lambda settings: settings.routing.model_for(1).name, "vllm/small"),
    "base_url": Given("--base-url http://127.0.0.1:9/v1", lambda settings: settings.served[0], "http://127.0.0.1:9/v1"),
    "window": Given("--window 12345", lambda settings: settings.routing.root.window, 12345),
    "option": Given("--option seed=7", lambda settings: settings.model_options, {"seed": 7}),
    "sub_option": Given("--sub-option seed=8", lambda settings: settings.sub_model_options, {"seed": 8}),
    "system_extra": Given("--system-extra Briefly.", lambda settings: settings.system_prompt_extra, "Briefly."),
    "termination": Given("--termination grounded", lambda settings: settings.policies["termination"], "grounded"),
    "reward": Given("--reward strict", lambda settings: settings.policies["reward"], "strict"),
    "samples": Given("--samples 3", lambda settings: settings.samples, 3),
    "require_agreement": Given("--samples 3 --require-agreement", lambda settings: settings.require_agreement, True),
    "strategy": Given("--strategy auto", lambda settings: settings.strategy, "auto"),
    "compact_at": Given("--compact-at 0.5", lambda settings: settings.compact_at, 0.5),
    "see_figures": Given("--see-figures never", lambda settings: settings.see_figures, "never"),
    "answer": Given("--answer int", lambda settings: settings.answer and settings.answer.schema["type"], "integer"),
    "schema": Given(
        "--schema form.json", lambda settings: settings.answer and settings.answer.schema["type"], "integer"
    ),
    "output": Given(
        "--output made.csv", lambda settings: settings.outputs and settings.outputs.artefacts[0].name, "made.csv"
    ),
    "output_dir": Given(
        "--output made.csv --output-dir folder",
        lambda settings: settings.outputs and settings.outputs.folder.path.name,
        "folder",
    ),
    "replace": Given(
        "--output made.csv --replace", lambda settings: settings.outputs and settings.outputs.replace, True
    ),
    "tool": Given("--tool json:dumps", lambda settings: [spec["name"] for spec in settings.tools.specs], ["dumps"]),
    "sub_tool": Given(
        "--sub-tool json:dumps", lambda settings: [spec["name"] for spec in settings.sub_tools.specs], ["dumps"]
    ),
    "mcp": Given("--mcp tickets", lambda settings: [server.name for server in settings.mcp], ["tickets"]),
    "max_iterations": limit("max_iterations", 7),
    "max_seconds": limit("max_seconds", 77.0),
    "max_cost": limit("max_cost", 0.77),
    "max_tokens": limit("max_tokens", 7777),
    "max_subcalls": limit("max_subcalls", 77),
    "max_tool_calls": limit("max_tool_calls", 78),
    "max_answer_errors": limit("max_answer_errors", 6),
    "max_depth": limit("max_depth", 2),
    "request_idle_seconds": limit("request_idle_seconds", 76.0),
    "price": Given(
        f"--price {MODEL}=1,2", lambda settings: settings.prices.get(MODEL), Price(1, 2), trait={MODEL: (1, 2)}
    ),
    "sandbox": Given("--sandbox none", lambda settings: settings.sandbox.kind, "none"),
    "container_image": Given(
        "--sandbox podman --container-image mine", lambda settings: settings.sandbox.image, "mine"
    ),
    "read": Given("--read folder", lambda settings: [Path(path).name for path in settings.sandbox.read], ["folder"]),
    "write": Given("--write folder", lambda settings: [Path(path).name for path in settings.sandbox.write], ["folder"]),
    "insurance": Given("--insurance", lambda settings: settings.insurance, True),
    "preload": Given("--preload json", lambda settings: settings.preload, ("json",), trait=["json"]),
    "kernel_url": Given(
        "--kernel-url http://127.0.0.1:9/user/me",
        lambda settings: settings.server and settings.server.url,
        "http://127.0.0.1:9/user/me",
    ),
    "kernel_token_env": Given(
        "--kernel-url http://127.0.0.1:9 --kernel-token-env HUB_TOKEN",
        lambda settings: settings.server and settings.server.token,
        "of the hub",
    ),
    "save": Given("--save made.ipynb", lambda settings: Path(str(settings.save)).name, "made.ipynb"),
}


def by_magic(words: str) -> Settings:
    options, _ = RLMMagics(InteractiveShell())._parse(f"{words} -- q", None)
    return RLMMagics(InteractiveShell()).configured(options).settings


def by_command(words: str) -> Settings:
    args = parsed(["run", "q", *words.split()])
    return rlm_of(args, args.model, limits_of(args)).settings


def by_configuration(option: Option, given: Given) -> Settings:
    """Set the option's trait, and in the cell what it can't be without."""
    magics = RLMMagics(InteractiveShell())
    setattr(magics, option.keyword, given.held if given.trait is None else given.trait)
    needed = " ".join(given.words.split()[:-1]) if option.kind is bool else ""
    model = "" if option.name == "model" else f"-m {MODEL}"
    options, _ = magics._parse(f"{model} {needed} -- q", None)
    return magics.configured(options).settings


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the values name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLM_SANDBOX", raising=False)
    monkeypatch.setattr(container, "why_not", lambda kind, image: None)
    monkeypatch.setenv("HUB_TOKEN", "of the hub")
    (tmp_path / "folder").mkdir()
    (tmp_path / "form.json").write_text('{"type": "integer"}')
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"tickets": {"command": "serve-tickets"}}}))


def test_a_value_is_written_as_it_is_typed() -> None:
    for option in OPTIONS:
        text = option.settings("magic")["help"]
        first = text.partition(":")[0]
        assert first in option.choices or first.lower() not in option.choices, option.name
    shown = {option.name: option.settings("magic")["help"] for option in OPTIONS}
    assert shown["sandbox"].startswith("bwrap: ")
    assert shown["model"][0].isupper()


def test_every_option_has_its_place_in_this_table() -> None:
    assert {option.name for option in OPTIONS} == GIVEN.keys() | OF_THE_QUESTION


def test_what_is_recorded_has_its_name_in_the_record() -> None:
    assert {"samples", "strategy"} <= set(RECORDED) <= RecordedOptions.__annotations__.keys()


def test_what_the_table_sets_is_recorded() -> None:
    """Either by the metadata of its field, or as `recorded_options` says."""
    set_by_the_table = {option.keyword for option in OPTIONS} & {one.name for one in fields(Settings)}
    assert set_by_the_table - set(RECORDED) == RECORDED_OTHERWISE


def test_a_default_is_the_same_wherever_it_stands() -> None:
    of_rlm, of_settings = signature(RLM.__init__).parameters, {one.name: one.default for one in fields(Settings)}
    told = {option.keyword: option.default for option in OPTIONS if option.kind is not bool}
    for name in RECORDED:
        assert of_rlm[name].default == of_settings[name], name
        assert told.get(name, "") in {"", str(of_settings[name])}, name


SURFACES: tuple[Surface, ...] = ("cli", "magic", "config")
TAKEN = [
    pytest.param(option, surface, id=f"{option.name}-{surface}")
    for option in OPTIONS
    for surface in SURFACES
    if option.name in GIVEN and surface in option.surfaces | option.elsewhere
]


@pytest.mark.parametrize(("option", "surface"), TAKEN)
def test_what_an_option_is_given_is_what_the_run_is_configured_with(option: Option, surface: Surface) -> None:
    if option.name == "insurance" and not supervisor.can_fork_live():
        pytest.skip("no kernel can be forked here")
    given = GIVEN[option.name]
    assert given.read(by_command(f"-m {MODEL}")) != given.held  # else nothing would be seen
    if surface == "config":
        settings = by_configuration(option, given)
    else:
        model = "" if option.name == "model" else f"-m {MODEL} "
        settings = (by_magic if surface == "magic" else by_command)(f"{model}{given.words}")
    assert given.read(settings) == given.held
