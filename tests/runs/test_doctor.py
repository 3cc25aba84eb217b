"""`jupyter rlm doctor`: what works here, by looking at it."""

from __future__ import annotations

import json
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.runs.test_cli import Done, cli, start
from tests.runs.test_cli import here as here

pytestmark = pytest.mark.slow

KEY = "sk-0123456789-never-shown"


def checks(*options: str) -> tuple[int, dict[str, tuple[str, str]]]:
    done = cli("doctor", "--json", *options)
    assert done.err == ""
    return done.code, {check["name"]: (check["state"], check["what"] + check["do"]) for check in json.loads(done.out)}


def test_all_is_well_where_there_is_a_key(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    done = cli("doctor")
    assert done.code == 0
    assert KEY not in done.out + done.err
    lines = {line.split()[1]: line for line in done.out.splitlines()}
    assert lines["keys"].split(maxsplit=2)[2] == "ANTHROPIC_API_KEY (not shown, and not tried)."
    assert "a run in a kernel of its own took" in lines["kernel"]
    assert lines["lab"].startswith("ok")
    said = rf"ok +versions +Python {platform.python_version()}, rlm_jupyter {version('rlm_jupyter')}, ipykernel [\w.]+, .*\."
    assert re.fullmatch(said, lines["versions"])
    assert lines["runs"].endswith(f"are kept in {here}/rlm_runs.")
    assert not (here / "rlm_runs").exists()
    assert all(line.split()[0] in {"ok", "note"} for line in done.out.splitlines())


def test_what_is_missing_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    code, found = checks()
    assert code == 1
    state, said = found["model"]
    assert state == "fail"
    assert "ANTHROPIC_API_KEY" in said
    assert found["keys"] == ("note", "none in the environment.")
    monkeypatch.setenv("RLM_MODEL", "openai/gpt-5")
    code, found = checks()
    assert (code, found["model"][0]) == (1, "fail")
    assert "OPENAI_API_KEY" in found["model"][1]
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    code, found = checks()
    assert (code, found["model"]) == (0, ("ok", "RLM_MODEL is openai/gpt-5."))


def test_a_kernel_that_does_not_start_is_seen(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    (here / "broken").mkdir()
    (here / "broken" / "ipykernel.py").write_text("raise ImportError('broken here')")
    monkeypatch.setenv("PYTHONPATH", str(here / "broken"))
    # what the kernel itself says of that goes to standard error
    done = Done(start("doctor", "--json", stderr=subprocess.DEVNULL))
    [kernel] = [check for check in json.loads(done.out) if check["name"] == "kernel"]
    assert (done.code, kernel["state"]) == (1, "fail")
    assert kernel["do"]
