import json
import os
import re
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlm_jupyter.record.blobs import Objects
from rlm_jupyter.record.catalog import find, find_request, list_runs
from rlm_jupyter.record.journal import Journal
from rlm_jupyter.record.notebook_writer import NotebookWriter
from rlm_jupyter.record.recorder import recording
from rlm_jupyter.record.store import RunFiles, check_save_path, folder_of
from rlm_jupyter.run.context import pack
from rlm_jupyter.types.errors import ConfigurationError, RecordError
from rlm_jupyter.types.values import ContextInfo
from tests.support.sample_run import FIRST, ended, reply, sample, started


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def keep(files, records, context=None) -> None:
    with Journal.open(files.journal) as journal:
        writer = NotebookWriter(files.notebook, files.objects, context)
        for record in records:
            journal.append(record)
            writer.update(record)
        writer.write()


def test_a_run_is_named_by_time_and_prompt(here) -> None:
    files = RunFiles.create("Which tickets lost data, and why? Explain it in all detail, please")
    assert re.fullmatch(r"\d{8}-\d{6}-which-tickets-lost-data-and-why-explain", files.name)
    assert files.notebook.parent == files.folder.parent
    assert files.folder.parent.absolute() == here / "rlm_runs"
    assert files.folder.is_dir()


@pytest.mark.parametrize(
    ("prompt", "slug"),
    [
        ("", "run"),
        ("?!\ud800", "run"),
        ("../../etc/passwd", "etc-passwd"),
        ("Größe: 哪个?", "größe-哪个"),
        ("x" * 500, "x" * 40),
        ("a\nb\x00c", "a-b-c"),
    ],
)
def test_a_name_is_safe_in_any_script(here, prompt, slug) -> None:
    assert RunFiles.create(prompt).name[16:] == slug


def test_names_never_collide(here, monkeypatch) -> None:
    names = [RunFiles.create("same", where=here).name for _ in range(30)]
    assert len(set(names)) == 30
    assert sum(name.endswith("same") for name in names) <= 3
    assert any(name.endswith("same-2") for name in names)
    assert not any(name.endswith("same-1") for name in names)


@pytest.mark.parametrize("path", ["run.ipynb", "run", "run.rlm", "deep/er/run.ipynb", "v1.2"])
def test_a_path_names_the_notebook(here, path) -> None:
    (here / "deep").mkdir()
    files = RunFiles.create("prompt", path)
    assert files.notebook.suffix == ".ipynb"
    assert files.name == ("v1.2" if path == "v1.2" else "run")
    assert files.folder.is_dir()


def test_a_folder_is_where_the_run_goes(here) -> None:
    (here / "mine").mkdir()
    assert RunFiles.create("prompt", here / "mine").folder.parent == here / "mine"


def test_an_earlier_run_stays_where_it_is_and_the_new_one_gets_another_name(here) -> None:
    for n in range(3):
        files = RunFiles.create("prompt", "run.ipynb")
        keep(files, [started(run_id=f"r{n}")])
        assert files.name == ("run", "run-2", "run-3")[n]
        says = f"run.ipynb is the notebook of another run, so this run is saved in {files.notebook.name}"
        assert files.renamed == (says if n else "")
    assert {path.name for path in here.iterdir()} == {
        f"run{number}.{suffix}" for number in ("", "-2", "-3") for suffix in ("ipynb", "rlm")
    }
    assert [find(f"r{n}").name for n in range(3)] == ["run", "run-2", "run-3"]


def test_a_run_stays_where_it_began(here, monkeypatch) -> None:
    files = RunFiles.create("prompt")
    monkeypatch.chdir("/")
    keep(files, sample())
    assert (here / "rlm_runs" / f"{files.name}.ipynb").is_file()


def test_a_run_that_left_only_its_folder_stays_too(here) -> None:
    files = RunFiles.create("prompt", "run.ipynb")
    with Journal.open(files.journal) as journal:
        journal.append(started())
    assert RunFiles.create("prompt", "run.ipynb").name == "run-2"
    assert (here / "run.rlm" / "journal.jsonl").is_file()


@pytest.mark.parametrize("content", ["", "{}", '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'])
def test_a_notebook_that_is_no_run_is_not_touched(here, content) -> None:
    path = here / "mine.ipynb"
    path.write_text(content)
    with pytest.raises(ConfigurationError, match=r"mine.ipynb is not the notebook of a run"):
        RunFiles.create("prompt", path)
    assert path.read_text() == content
    assert list(here.iterdir()) == [path]


def test_a_run_that_goes_on_keeps_its_name(here) -> None:
    files = RunFiles.create("prompt", "run.ipynb")
    with Journal.open(files.journal) as journal:
        journal.append(started())
        assert RunFiles.create("prompt", "run.ipynb").name == "run-2"


def test_processes_that_name_the_same_notebook_get_different_ones(here) -> None:
    code = (
        "from rlm_jupyter.record.store import RunFiles\nprint('ready', flush=True)\ninput()\n"
        "for _ in range(20):\n    print(RunFiles.create('prompt', 'run.ipynb').name)"
    )
    several = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for one in several:  # all have imported it before the first begins
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in several:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    names = [name for one in several for name in one.communicate()[0].split()]
    assert sorted(names) == sorted(["run", *(f"run-{n}" for n in range(2, 81))])


@pytest.mark.parametrize("path", ["mine/", "deep/er/", f"other{os.sep}"])
def test_a_path_that_ends_with_a_slash_is_a_folder(here, path) -> None:
    (here / "deep").mkdir()
    files = RunFiles.create("prompt", path)
    assert files.notebook.parent == here / path
    assert files.name.endswith("-prompt")
    assert files.renamed == RunFiles.create("prompt", path).renamed == ""
    assert folder_of(path) == folder_of(f"{path}run.ipynb") == Path(path)


@pytest.mark.parametrize("path", ["no/such/run.ipynb", "no/such/", "no/su/ch/run", "../no/such/run.ipynb"])
def test_a_place_whose_folders_are_missing_is_refused_and_nothing_is_made(here, path) -> None:
    for refuse in (check_save_path, lambda path: RunFiles.create("prompt", path)):
        with pytest.raises(ConfigurationError, match=r"There is no folder .*no(/su)? to save the run in: make it, or"):
            refuse(path)
    assert not (here / "no").exists()


def test_a_folder_in_place_of_a_file_is_refused(here) -> None:
    (here / "taken").write_text("a file")
    with pytest.raises(ConfigurationError, match=r"can't be saved in .*taken"):
        RunFiles.create("prompt", "taken/")


def test_a_place_that_can_not_be_written_is_named(here) -> None:
    (here / "rlm_runs").write_text("a file")
    with pytest.raises(ConfigurationError, match=r"can't be saved in .*rlm_runs.*Name another place"):
        RunFiles.create("prompt")
    with pytest.raises(ConfigurationError, match="can't be saved"):
        RunFiles.create("prompt", "rlm_runs/run.ipynb")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_named(here) -> None:
    here.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(ConfigurationError, match="Permission denied"):
            RunFiles.create("prompt")
    finally:
        here.chmod(stat.S_IRWXU)


def test_ids_are_never_used_again() -> None:
    files = RunFiles(Path("run.ipynb"))
    assert files.new_id().startswith("run-")
    assert files.new_id() != files.new_id()


def test_children_live_flat_in_their_root_and_share_its_objects(here) -> None:
    root = RunFiles.create("prompt", "run.ipynb")
    child = root.child()
    grandchild = child.child("A part")
    assert child.notebook.parent == grandchild.notebook.parent == root.folder / "children"
    assert grandchild.name.endswith("-a-part")
    assert child.objects.folder == grandchild.objects.folder == root.objects.folder
    keep(grandchild, [started(run_id="deep")])
    assert find("deep") == RunFiles(grandchild.notebook)
    assert find(grandchild.name, root.folder / "children").notebook == grandchild.notebook.absolute()


def test_a_run_is_found_from_where_people_are(here, monkeypatch) -> None:
    files = RunFiles.create("prompt")
    keep(files, [started(run_id="my-id")])
    expected = files.notebook.absolute()
    for run in ("my-id", files.name, files.notebook, files.folder, str(files.notebook)):
        assert find(run).notebook.absolute() == expected
    monkeypatch.chdir(here / "rlm_runs")
    assert find("my-id").notebook.absolute() == expected
    assert find("my-id", here).notebook.absolute() == expected
    near = f"{files.name[:-1]}x"
    with pytest.raises(RecordError, match=rf"There is no run '{near}' .*\. Did you mean {files.name}\?$"):
        find(near)
    monkeypatch.chdir("/")
    with pytest.raises(
        RecordError, match=r"no run 'my-id' in / or its rlm_runs\. Change to the folder of its notebook"
    ):
        find("my-id")


def test_a_notebook_alone_is_found_too(here) -> None:
    writer = NotebookWriter(here / "alone.ipynb")
    writer.update(started(run_id="other"))
    writer.write()
    (here / "broken.ipynb").write_text("{")
    assert find("other").name == "alone"
    assert find("alone").name == "alone"


@pytest.mark.parametrize("run", ["none", "none.ipynb", "some/none", "../none.rlm"])
def test_a_run_that_is_not_there_is_an_error_in_a_line(here, run) -> None:
    with pytest.raises(RecordError, match=r"There is no run .*none"):
        find(run)


def test_runs_are_listed_newest_first_without_reading_them(here) -> None:
    for n in range(3):
        files = RunFiles.create(f"prompt {n}")
        keep(files, [started(run_id=f"r{n}", started=f"2026-01-0{n + 1}T00:00:00+00:00"), *sample()[1:]])
        lines = files.journal.read_bytes().splitlines(keepends=True)
        files.journal.write_bytes(lines[0] + b"not read\n" * 50 + lines[-1])
    keep(RunFiles.create("killed"), [started(run_id="killed", started="2026-01-09")])
    RunFiles.create("claimed, but never begun")
    runs = list_runs()
    assert [run.started.run_id for run in runs] == ["killed", "r2", "r1", "r0"]
    assert [run.ended for run in runs] == [None, *[sample()[-1]] * 3]
    assert find(runs[1].files.notebook).exists()
    assert list_runs(here / "nowhere") == []


def test_listing_and_finding_are_fast_among_many(here) -> None:
    one = RunFiles.create("prompt")
    keep(one, [started(system="s" * 8_000), ended()])
    line = one.journal.read_bytes()
    for n in range(1500):
        folder = here / "rlm_runs" / f"r{n:04}.rlm"
        folder.mkdir()
        (folder / "journal.jsonl").write_bytes(line.replace(b"20260102-030405-who", b"id-%04d" % n))
    began = time.perf_counter()
    assert len(list_runs()) == 1501
    listed = time.perf_counter() - began
    began = time.perf_counter()
    assert find("id-1499").name == "r1499"
    assert find_request("00" * 32) is None
    searched = time.perf_counter() - began
    assert listed < 20
    assert searched < 10


def test_the_same_request_finds_the_newest_run_that_answered(here) -> None:
    def run(name, started_at, **end) -> None:
        records = [started(run_id=name, started=started_at)]
        keep(RunFiles.create(name), [*records, ended(**end)] if end else records)

    assert find_request("cd" * 32) is None
    run("killed", "2026-01-08")
    run("limited", "2026-01-07", stop_reason="iterations")
    run("none", "2026-01-06", answer=None)
    assert find_request("cd" * 32) is None
    run("old", "2026-01-01", stop_reason="answered")
    run("good", "2026-01-03", stop_reason="terminated")
    run("older", "2026-01-02", stop_reason="answered")
    found = find_request("cd" * 32)
    assert found is not None
    assert found.started.run_id == "good"
    assert find_request("ce" * 32) is None
    assert find_request("", here / "rlm_runs") is None


@pytest.mark.parametrize("context", ["text \ud800", b"\x00", {"a": [1]}, None])
async def test_a_context_comes_back_from_the_store(here, context) -> None:
    files, packed = RunFiles.create("prompt"), pack(context)
    await files.store_context(packed)
    keep(files, [started(context=packed.info)])
    assert files.load_context() == packed


async def test_a_frame_comes_back_with_its_buffers(here) -> None:
    import numpy as np
    import pandas as pd

    from rlm_jupyter.run.context import unpack

    frame = pd.DataFrame({"a": np.arange(100_000), "b": np.random.default_rng(0).random(100_000)})
    files, packed = RunFiles.create("prompt"), pack(frame)
    assert len(packed.buffers) > 1
    await files.store_context(packed)
    keep(files, [started(context=packed.info)])
    assert unpack(files.load_context()).equals(frame)


def test_a_small_context_comes_back_from_the_notebook_alone(here) -> None:
    files, packed = RunFiles.create("prompt"), pack({"a": 1})
    keep(files, [started(context=packed.info)], packed)
    files.journal.unlink()
    assert files.load_context() == packed


def test_a_context_that_is_gone_is_named(here) -> None:
    files, packed = RunFiles.create("prompt"), pack("x" * 100_000)
    keep(files, [started(context=packed.info)], packed)
    with pytest.raises(RecordError, match=packed.info.sha256):
        files.load_context()


def test_an_object_is_kept_once_and_checked(tmp_path) -> None:
    objects = Objects(tmp_path / "objects")
    sha256 = objects.put(b"content")
    kept = objects.path(sha256)
    before = kept.stat().st_ino
    assert objects.put([b"con", memoryview(b"tent")]) == sha256
    assert kept.stat().st_ino == before
    assert objects.get(sha256) == b"content"
    kept.write_bytes(b"CONTENT")
    with pytest.raises(RecordError, match="damaged"):
        objects.get(sha256)
    kept.write_bytes(b"")
    objects.put(b"content")
    assert objects.get(sha256) == b"content"
    with pytest.raises(RecordError, match=rf"objects/{'ab' * 32} is missing"):
        objects.get("ab" * 32)
    assert [path.name for path in objects.folder.iterdir()] == [sha256]


def test_an_object_folder_that_can_not_be_written_is_named(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="can't be written"):
        Objects(tmp_path / "file").put(b"x")
    with pytest.raises(RecordError, match="can't be read"):
        Objects(tmp_path / "file").get("ab" * 32)


def test_a_description_without_an_object_is_an_error(tmp_path) -> None:
    objects = Objects(tmp_path)
    packed = pack([1, 2])
    objects.put_context(packed)
    assert objects.get_context(packed.info) == packed
    objects.path(packed.info.sha256).with_suffix(".lengths").write_text(json.dumps("x"))
    with pytest.raises(RecordError, match="lengths is missing or damaged"):
        objects.get_context(packed.info)
    with pytest.raises(RecordError, match="ff is missing"):
        objects.get_context(ContextInfo("str", "", (), "", "ff" * 32, 1))


def test_a_link_to_another_folder_is_followed(here) -> None:
    keep(RunFiles.create("prompt", here / "real" / "run.ipynb"), [started(run_id="x"), reply(1, FIRST)])
    (here / "link").symlink_to(here / "real")
    assert find("x", here / "link").exists()


async def test_a_run_that_did_not_begin_takes_only_its_own_files_with_it(tmp_path) -> None:
    for name, mine in (("run", "notes.md"), ("other", "")):
        async with recording("What?", pack("x" * 100_000), tmp_path / f"{name}.ipynb") as recorder:
            assert recorder is not None
            if mine:
                (recorder.files.folder / mine).write_text("mine")
    assert {path.name for path in tmp_path.rglob("*")} == {"run.rlm", "notes.md"}
