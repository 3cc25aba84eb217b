"""Modules of the user's in the folder that they work in: found, and never taken for standard ones by a process of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sandboxes import need_bwrap

NAMES = ("queue", "random", "secrets", "pkgutil", "tornado", "zmq", "openai", "rlm_jupyter")
CELL = """
import mine, queue, random, subprocess, sys
told = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True)
print(mine.VALUE, queue.__file__ != mine.__file__.replace("mine", "queue"), random.Random(1).random(), told.stdout)
"""
HOST = """
import sys
from rlm_jupyter import RLM, Sandbox
from rlm_jupyter.models.scripted import ScriptedModel

kind, warm, preload = sys.argv[1], sys.argv[2] == "warm", sys.argv[3:]
sandbox = Sandbox(kind, read=["."]) if kind == "bwrap" else kind
model = ScriptedModel([f"```repl{open('cell').read()}```", "```repl\\nFINAL(mine.VALUE)\\n```"])
result = RLM(model, sandbox=sandbox, warm=warm, preload=preload, save=False).completion("?", "a text")
print(result.trajectory.iterations[0].cells[0].outputs[0]["text"], result.answer)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text("raise RuntimeError('not the one that was meant')")
    (folder / "mine.py").write_text("VALUE = 17")
    (folder / "script.py").write_text("import mine\nprint('beside', mine.VALUE, end='')")
    (folder / "cell").write_text(CELL)
    (tmp_path / "host.py").write_text(HOST)
    return folder


@pytest.mark.parametrize("preload", [[], ["mine"]], ids=["", "preload"])
@pytest.mark.parametrize("warm", ["warm", "anew"])
@pytest.mark.parametrize("kind", ["none", "bwrap"])
def test_a_kernel_finds_them_after_the_standard_ones(folder: Path, kind: str, warm: str, preload: list[str]) -> None:
    if kind == "bwrap":
        need_bwrap()
    words = [sys.executable, str(folder.parent / "host.py"), kind, warm, *preload]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "17 True 0.13436424411240122 beside 17\n 17\n", done.stderr


def test_the_command_line_finds_them_last(folder: Path) -> None:
    (folder / "mine.py").write_text("def double(n: int) -> int:\n    '''Double.'''\n    return 2 * n")
    (folder / "s.json").write_text(json.dumps({"replies": ["```repl\nFINAL(double(4))\n```"]}))
    words = ["run", "?", "-m", "scripted/s.json", "--tool", "mine:double", "--sandbox", "none", "--quiet"]
    command = [str(Path(sys.executable).with_name("jupyter-rlm")), *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("8\n", 0), done.stderr


def test_a_driver_and_the_rlm_kernel_begin_beside_them(folder: Path) -> None:
    spec = json.loads((Path(__file__).parents[2] / "rlm_jupyter" / "kernelspec" / "kernel.json").read_text())
    kernel = [sys.executable, *spec["argv"][1:-2], "--version"]
    done = subprocess.run(kernel, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    driver = [sys.executable, "-P", "-m", "rlm_jupyter.frontends.here"]
    done = subprocess.run(driver, cwd=folder, input="", capture_output=True, text=True, timeout=60, check=False)
    assert "not the one" not in done.stderr
    assert os.environ.get("PYTHONSAFEPATH") is None  # else none of these would fail
