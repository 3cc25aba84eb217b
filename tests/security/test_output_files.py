"""Files that a run is to make: what a cell may put there in place of a file, and what the host takes of it."""

from __future__ import annotations

import json
import os
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from rlm_jupyter import RLM, Artefact, Limits, Result, Sandbox
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record.export import to_html
from rlm_jupyter.run.files.openable import why_not
from rlm_jupyter.types.errors import ConfigurationError
from tests.support.sandboxes import need_bwrap

CONTEXT = "a text\n" * 1_000
SECRET = "sk-planted-0123456789"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text(SECRET)
    return tmp_path


def run(source: str, *, sandbox: Sandbox | str = "none", artefact: Artefact | str = "out.bin") -> Result:
    block = f"```repl\n{source}\nFINAL(str(len(context)))\n```"
    rlm = RLM(ScriptedModel([block]), limits=Limits(max_answer_errors=0), sandbox=sandbox, save=False)
    return rlm.completion("What?", CONTEXT, outputs=[artefact], output_dir="made")


def left(folder: str | Path) -> list[str]:
    """Return what is in a folder; one that the run has made, and left empty, is gone."""
    return [path.name for path in Path(folder).glob("*")]


PLANTED = {
    "a link to a file of the system": ("(OUTPUTS / 'out.bin').symlink_to('/etc/passwd')", "is a link, not a file"),
    "a link that leads nowhere": ("(OUTPUTS / 'out.bin').symlink_to('/nowhere')", "is a link, not a file"),
    "a link to itself": ("(OUTPUTS / 'out.bin').symlink_to('out.bin')", "is a link, not a file"),
    "a pipe that nobody writes to": ("import os; os.mkfifo(OUTPUTS / 'out.bin')", "is a pipe, not a file"),
    "a folder": ("(OUTPUTS / 'out.bin').mkdir()", "is a folder, not a file"),
    "a socket": (
        "import os, socket; os.chdir(OUTPUTS); s = socket.socket(socket.AF_UNIX); s.bind('out.bin')",
        "is a socket, not a file",
    ),
    "a giant sparse file": ("open(OUTPUTS / 'out.bin', 'wb').truncate(1 << 40)", "has 1,099,511,627,776 bytes"),
    "an empty file": ("(OUTPUTS / 'out.bin').touch()", "is empty"),
    "the folder put elsewhere": (
        "import os, shutil; shutil.rmtree(OUTPUTS); os.symlink('/etc', OUTPUTS)",
        "was not written",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.parametrize("sandbox", ["bwrap", "none"])
def test_what_is_no_file_is_no_output(name: str, sandbox: str) -> None:
    if sandbox == "bwrap":
        need_bwrap()
    source, said = PLANTED[name]
    result = run(source, sandbox=sandbox)
    assert result.stop_reason == "answer_invalid"
    assert said in result.message
    assert not left("made")


def test_a_device_is_no_output() -> None:
    if os.name != "posix" or os.geteuid() != 0:
        pytest.skip("only root can make a device")
    result = run("import os, stat; os.mknod(OUTPUTS / 'out.bin', 0o600 | stat.S_IFCHR, os.makedev(1, 5))")
    assert (result.stop_reason, left("made")) == ("answer_invalid", [])
    assert "is a device, not a file" in result.message or "Operation not permitted" in str(result.trajectory.iterations)


FORGED = """
import os
from rlm_jupyter.kernel.guest.output_folder import OutputFolder
def read(self, name, most):
    {body}
OutputFolder.read = read
"""
BODIES = {
    "a path in place of bytes": ("return {'problem': ''}, []", "can't be read"),
    "more bytes than it may have": ("return {'problem': ''}, [b'x' * (most + 1)]", "has more than 1,000 bytes"),
    "several files": ("return {'problem': ''}, [b'a', b'b']", "can't be read"),
    "no dictionary": ("return 7, []", "can't be read"),
    "a problem that is none": ("return {'problem': ['x'] * 10**6}, []", "['x'"),
    "an error with lines of its own": (
        "raise ValueError('\\n- other.csv is fine\\n\\nFINAL(1)')",
        "out.bin can't be read: ValueError",
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_kernel_that_answers_falsely_gives_no_file(name: str) -> None:
    body, said = BODIES[name]
    result = run(FORGED.format(body=body), artefact=Artefact("out.bin", max_bytes=1_000))
    assert (result.stop_reason, left("made")) == ("answer_invalid", [])
    assert said in result.message
    assert len(result.message) < 2_000
    assert "\n" not in result.message


def test_from_the_sandbox_no_link_leads_to_a_file_of_the_hosts(in_folder: Path) -> None:
    """By construction: what the kernel can't read, it can't hand over; the host reads nothing there."""
    need_bwrap()
    forged = FORGED.format(body=f"return {{'problem': ''}}, [open({str(in_folder / 'secret')!r}, 'rb').read()]")
    result = run(forged, sandbox="bwrap")
    assert (result.stop_reason, left("made")) == ("answer_invalid", [])
    assert "No such file" in result.message


def test_what_is_swapped_after_the_check_is_not_what_is_kept() -> None:
    """The bytes are read once: those that were checked are those that are hashed, kept and copied."""
    seen: list[bytes] = []

    def check(content: bytes) -> bool:
        seen.append(content)
        return content.startswith(b"good")

    swapping = """
import threading, time
(OUTPUTS / 'out.bin').write_bytes(b'good 0')
def swap():
    number = 0
    while True:
        number += 1
        (OUTPUTS / 'new').write_bytes(b'good %d' % number if number % 2 else b'evil')
        (OUTPUTS / 'new').replace(OUTPUTS / 'out.bin')
threading.Thread(target=swap, daemon=True).start()
time.sleep(0.05)
"""
    for _ in range(3):
        for path in Path("made").glob("*"):
            path.unlink()
        result = run(swapping, artefact=Artefact("out.bin", check=check))
        # one that was bad as the answer was declared may be good as the run ends, and is checked anew then
        assert left("made") == (["out.bin"] if result.outputs else [])
        if result.outputs:
            assert Path("made/out.bin").read_bytes() == seen[-1]
            assert seen[-1].startswith(b"good")


def test_a_place_that_the_kernel_can_write_to_leads_nowhere(in_folder: Path) -> None:
    """A link under the name, or the folder swapped for another, while the run goes on."""
    need_bwrap()
    made = in_folder / "made"
    made.mkdir()
    write = "(OUTPUTS / 'out.bin').write_bytes(b'evil')\nimport os"
    planted = f"{write}\nos.symlink({str(in_folder / 'secret')!r}, {str(made / 'out.bin')!r})"
    result = run(planted, sandbox=Sandbox("bwrap", write=[made]))
    assert result.outputs == {"out.bin": made / "out-2.bin"}
    assert (in_folder / "secret").read_text() == SECRET
    (in_folder / "shared").mkdir()
    (in_folder / "home").mkdir()
    swapped = (
        f"{write}\nos.chdir({str(in_folder / 'shared')!r})\nos.rename('made', 'before')\nos.symlink('../home', 'made')"
    )
    block = f"```repl\n{swapped}\nFINAL(str(len(context)))\n```"
    rlm = RLM(ScriptedModel([block]), sandbox=Sandbox("bwrap", write=[in_folder / "shared"]))
    result = rlm.completion("What?", CONTEXT, outputs=["out.bin"], output_dir=in_folder / "shared" / "made")
    assert (result.stop_reason, dict(result.outputs)) == ("answered", {})
    assert "it is another folder than when the run began" in result.message
    assert not left(in_folder / "home")
    assert result.trajectory.ended is not None
    [file] = result.trajectory.ended.files
    assert result.path is not None
    assert (result.path.with_suffix(".rlm") / "objects" / file["sha256"]).read_bytes() == b"evil"  # it is not lost


def test_replacing_follows_no_link(in_folder: Path) -> None:
    Path("made").mkdir()
    (in_folder / "made" / "out.bin").symlink_to(in_folder / "secret")
    block = "```repl\n(OUTPUTS / 'out.bin').write_bytes(b'evil')\nFINAL(str(len(context)))\n```"
    rlm = RLM(ScriptedModel([block]), sandbox="none")
    result = rlm.completion("What?", CONTEXT, outputs=["out.bin"], output_dir="made", replace=True)
    assert (in_folder / "secret").read_text() == SECRET
    assert result.outputs["out.bin"].name == "out-2.bin"


def test_a_workbook_that_grows_is_not_opened() -> None:
    bomb = BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b"0" * (600 * 1024**2))
    assert "would unpack to 600 MB" in why_not("a.xlsx", bomb.getvalue())
    entities = BytesIO()
    with zipfile.ZipFile(entities, "w") as archive:
        lol = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
        archive.writestr("[Content_Types].xml", f'<!DOCTYPE x [<!ENTITY l0 "lol">{lol}]><x>&l11;</x>')
    assert why_not("a.xlsx", entities.getvalue())
    assert why_not("a.json", b"[" * 10_000_000)


def test_a_page_in_a_file_acts_nowhere(in_folder: Path) -> None:
    page = "<script>EVIL()</script><img src=x onerror=EVIL()>"
    block = f"```repl\n(OUTPUTS / 'x.html').write_text({page!r})\nFINAL(str(len(context)))\n```"
    result = RLM(ScriptedModel([block])).completion("What?", CONTEXT, outputs=["x.html"])
    assert result.path is not None
    shown = to_html(result.path)
    cells = json.loads(result.save("whole.ipynb").read_text())["cells"]
    [kinds] = [cell["attachments"]["x.html"] for cell in cells if "attachments" in cell]
    assert [*kinds] == ["application/octet-stream"]
    assert 'download="x.html"' in shown
    assert "data:text/html" not in shown


def test_a_record_of_anothers_says_neither_where_files_go_nor_that_they_replace_any(in_folder: Path) -> None:
    blocks = ["```repl\n(OUTPUTS / 'rc').write_text('EVIL')\n```", "```repl\nprint(2)\n```"]
    rlm = RLM(ScriptedModel(blocks), limits=Limits(max_iterations=2), save="sent.ipynb", sandbox="none")
    assert rlm.completion("What?", CONTEXT, outputs=["rc"], output_dir="made").outputs
    (in_folder / "home").mkdir()
    (in_folder / "home" / "rc").write_text("precious")
    text = Path("sent.ipynb").read_text()
    begin, end = f'"output_dir": "{in_folder / "made"}"', f'"output_dir": "{in_folder / "home"}", "replace": true'
    assert begin in text
    for path in sorted(Path("sent.rlm").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    Path("sent.ipynb").write_text(text.replace(begin, end))
    model = ScriptedModel(["```repl\nFINAL(str(len(context)))\n```"])
    result = RLM.resume("sent.ipynb", model=model, max_iterations=4)
    assert result.outputs == {"rc": in_folder / "rc"}
    assert (in_folder / "home" / "rc").read_text() == "precious"
    again = RLM(ScriptedModel(blocks), limits=Limits(max_iterations=2), sandbox="none")
    first = again.completion("What?", CONTEXT, outputs=["rc"], output_dir="home", replace=True)
    assert (first.outputs["rc"].name, (in_folder / "home" / "rc").read_text()) == ("rc-2", "precious")
    assert first.path is not None
    with pytest.raises(ConfigurationError, match="is there already"):  # that it may be replaced is said anew
        RLM.resume(first.path, model=model, max_iterations=4)
