"""A process without standard streams, as some that start services leave it: its kernels come up all the same."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sandboxes import need_bwrap

HOST = """
import sys
from rlm_jupyter import RLM
from rlm_jupyter.models.scripted import ScriptedModel

kind, warm = sys.argv[1], sys.argv[2] == "warm"
cells = ["print('seen')", "import os\\nos.system('echo heard')", "FINAL('heard')"]
model = ScriptedModel([f"```repl\\n{cell}\\n```" for cell in cells])
rlm = RLM(model, sandbox=kind, warm=warm, save=False)
if warm:
    rlm.warm()
result = rlm.completion("?", "a text")
outputs = [output for iteration in result.trajectory.iterations for output in iteration.cells[0].outputs]
told = [output["text"] for output in outputs if output["output_type"] == "stream"]
open(sys.argv[3], "w").write(f"{told} {result.answer}")
"""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("warm", ["warm", "anew"])
@pytest.mark.parametrize("kind", ["none", "bwrap"])
def test_a_kernel_comes_up_and_is_heard(tmp_path: Path, kind: str, warm: str, closed: str) -> None:
    if kind == "bwrap":
        need_bwrap()
    told = tmp_path / "told"
    (tmp_path / "host.py").write_text(HOST)
    command = shlex.join([sys.executable, str(tmp_path / "host.py"), kind, warm, str(told)])
    done = subprocess.run(["sh", "-c", f"{command} {closed}"], capture_output=True, timeout=60, check=False)
    assert told.exists(), done.stderr.decode()
    assert told.read_text() == "['seen\\n', 'heard\\n'] heard"
