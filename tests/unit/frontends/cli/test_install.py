"""`jupyter rlm mcp --install`: printed, or put beside what is in a file; nobody's file is replaced."""

from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter.frontends.cli.main import main

KEY = "sk-ant-0123456789-never-written"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.delenv("CODEX_HOME", raising=False)
    return tmp_path


def install(client: str, *options: str) -> int:
    return main(["mcp", "--install", client, "-m", "anthropic/claude-sonnet-5", "--max-cost=0.5", *options])


def test_by_default_it_is_printed(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    assert install("claude", "--root", "papers", "--save", "kept") == 2
    assert "there is no such folder" in capsys.readouterr().err
    (home / "papers").mkdir()
    assert install("claude", "--root", "papers", "--save=kept") == 0
    out, err = capsys.readouterr()
    server = json.loads(out)["mcpServers"]["rlm"]
    assert Path(server["command"]).is_absolute()
    arguments = server["args"][server["args"].index("mcp") :]
    assert arguments == [
        *("mcp", "-m", "anthropic/claude-sonnet-5", "--max-cost=0.5", "--root", str(home / "papers")),
        *("--save", str(home / "kept"), "--wait", "3540"),
    ]
    assert server["env"] == {"ANTHROPIC_API_KEY": "${ANTHROPIC_API_KEY}"}
    assert err == "For Claude Code, in .mcp.json (--merge puts it there):\n"
    assert KEY not in out
    assert not (home / ".mcp.json").exists()


@pytest.mark.parametrize(
    ("client", "file", "key"),
    [
        ("claude", ".mcp.json", "mcpServers"),
        ("cursor", ".cursor/mcp.json", "mcpServers"),
        ("gemini", ".gemini/settings.json", "mcpServers"),
        ("vscode", ".vscode/mcp.json", "servers"),
    ],
)
def test_it_is_put_beside_what_is_in_a_json_file(client: str, file: str, key: str, home: Path) -> None:
    before: dict[str, Any] = {"theme": "größer", key: {"other": {"command": "x"}}}
    path = home / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(before))
    path.chmod(0o600)
    assert install(client, "--merge") == 0
    after = json.loads(path.read_text())
    server = after[key].pop("rlm")
    assert after == before
    assert server["command"]
    assert KEY not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    # a second time it is somebody's own by now
    held = path.read_bytes()
    assert install(client, "--merge") == 2
    assert path.read_bytes() == held


def test_it_is_put_behind_what_is_in_a_toml_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    before = '# mine\nmodel = "gpt-5"\n\n[mcp_servers.other]  # stays\ncommand = "x"\n'
    path.write_text(before)
    assert install("codex", "--merge") == 0
    text = path.read_text()
    assert text.startswith(before)
    server = tomllib.loads(text)["mcp_servers"]["rlm"]
    assert server["tool_timeout_sec"] > 3540
    assert server["env_vars"] == ["ANTHROPIC_API_KEY"]
    assert install("codex", "--merge") == 2
    assert "it has a server rlm already" in capsys.readouterr().err
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("client", "file", "held", "why"),
    [
        ("claude", ".mcp.json", '{"mcpServers": {} /* mine */}', "it is no plain JSON"),
        ("claude", ".mcp.json", "[1]", "it has another form"),
        ("claude", ".mcp.json", '{"mcpServers": 3}', "it has another form"),
        ("codex", ".codex/config.toml", "model = ", "its TOML can't be added to"),
        ("codex", ".codex/config.toml", "mcp_servers = {other = {}}", "its TOML can't be added to"),
        ("codex", ".codex/config.toml", "mcp_servers = 3", "its servers are no table"),
        ("claude", ".mcp.json", b"\xff\xfe", "can't decode"),
    ],
)
def test_what_can_not_be_merged_with_is_left_as_it_is(
    client: str, file: str, held: str | bytes, why: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / file
    path.parent.mkdir(exist_ok=True)
    raw = held.encode() if isinstance(held, str) else held
    path.write_bytes(raw)
    assert install(client, "--merge") == 2
    err = capsys.readouterr().err
    assert why in err
    assert err.count("\n") == 1
    assert "is left as it is" in err
    assert path.read_bytes() == raw


def test_files_and_folders_are_made_where_there_are_none(home: Path) -> None:
    assert install("vscode", "--merge") == 0
    assert json.loads((home / ".vscode" / "mcp.json").read_text())["servers"]["rlm"]["type"] == "stdio"
    assert install("codex", "--merge") == 0
    assert tomllib.loads((home / ".codex" / "config.toml").read_text())["mcp_servers"]["rlm"]["command"]


def test_options_that_would_not_serve_are_refused_before(home: Path) -> None:
    assert install("claude", "--merge", "--wait", "0") == 2
    assert not (home / ".mcp.json").exists()


@pytest.mark.parametrize("merge", [(), ("--merge",)])
def test_a_key_that_is_not_set_here_is_named_all_the_same(
    merge: tuple[str, ...], home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert install("claude", "--sub-model", "anthropic/claude-haiku-4-5", *merge) == 0
    out, err = capsys.readouterr()
    written = (home / ".mcp.json").read_text() if merge else out
    assert json.loads(written)["mcpServers"]["rlm"]["env"] == {"ANTHROPIC_API_KEY": "${ANTHROPIC_API_KEY}"}
    assert err.endswith("ANTHROPIC_API_KEY has no value here: set it where Claude Code is started.\n")


def test_a_server_on_this_machine_wants_no_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "--install", "claude", "-m", "openai/any", "--base-url", "http://127.0.0.1:1/v1"]) == 0
    out, err = capsys.readouterr()
    assert "env" not in json.loads(out)["mcpServers"]["rlm"]
    assert err.count("\n") == 1
