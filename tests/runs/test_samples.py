"""Several runs of one question: real kernels at once, one bill, and the answer that they agree on."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest

from rlm_jupyter import RLM, Limits, Result
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record import export
from rlm_jupyter.record.attempts import line
from rlm_jupyter.record.export import WholeRun
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run.control import Control
from rlm_jupyter.types.errors import ConfigurationError, ModelError
from rlm_jupyter.types.events import ChildReported, Event, RunEnded, RunStarted, SampleSettled
from rlm_jupyter.types.values import Message
from tests.runs.test_cli import cli


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def block(*lines: str) -> str:
    return "I run this.\n```repl\n" + "\n".join(lines) + "\n```"


class Draws(ScriptedModel):
    """Gives each conversation a number, in the order in which they begin, and the n-th answer.

    Parameters
    ----------
    answers
        Sources of the last cells; an exception is raised instead of the first reply.
    looks
        Sources of the first cells. Default: one that prints the number.
    """

    def __init__(self, answers: Sequence[str | Exception], looks: Sequence[str] = (), **options: Any) -> None:
        self._numbers = itertools.count()

        def reply(messages: Sequence[Message]) -> str:
            said = [message.content for message in messages if message.role == "assistant"]
            if not said:
                number = next(self._numbers)
                answer = answers[number]
                if isinstance(answer, Exception):
                    raise answer
                return block(f"number = {number}", looks[number] if looks else "print(number)")
            number = int(re.search(r"number = (\d+)", said[0])[1])  # type: ignore[index]
            return block(str(answers[number]))

        super().__init__([reply] * 100, sub=options.pop("sub", None), **options)


async def run(model: ScriptedModel, samples: int = 3, **options: Any) -> Result:
    control, on_event = options.pop("control", None), options.pop("on_event", None)
    limits = options.pop("limits", None) or Limits(max_iterations=5)
    rlm = RLM(model, samples=samples, limits=limits, **options)
    return await rlm.acompletion("Which city?", "a long text", control=control, on_event=on_event)


async def test_the_answer_is_the_one_that_most_give() -> None:
    model = Draws(["FINAL('Rome')", "FINAL('Lima')", "FINAL('lima.')"], ["import time; time.sleep(0.5)", "0", "0"])
    result = await run(model)
    assert result.answer in {"Lima", "lima."}
    assert (result.stop_reason, result.message) == ("answered", "2 of 3 samples agree") or (
        result.message == "2 of 2 samples agree"  # the third could not change it any more
    )
    assert result.confidence is not None
    assert result.confidence > 0.6
    samples = result.trajectory.samples
    assert {sample.sample for sample in samples} == {2, 3}
    assert {sample.answer for sample in samples} <= {"Rome", "Lima", "lima.", None}


async def test_each_has_a_kernel_of_its_own_and_all_share_one_bill() -> None:
    model = Draws([f"import os; FINAL([{number}, os.getpid()])" for number in range(3)])
    result = await run(model)
    answers = [result.value, *(sample.value for sample in result.trajectory.samples)]
    kernels = {pid for _, pid in answers}
    assert len(kernels) == 3
    whole = WholeRun.gather(result.path)  # type: ignore[arg-type]
    assert len(whole.children) == 2
    parts = [run.trajectory.usage.total_tokens for run in whole.children]
    own = sum(one.reply.usage.total_tokens for one in result.trajectory.iterations)
    assert result.usage.total_tokens == own + sum(parts) == result.trajectory.usage.total_tokens
    assert sum(used.usage.total_tokens for used in result.usage_by_model.values()) == result.usage.total_tokens


async def test_without_agreement_the_most_confident_is_given_with_little_confidence() -> None:
    answers = ["FINAL('Rome', confidence=0.2)", "FINAL('Lima', confidence=0.9)", "FINAL('Oslo')"]
    result = await run(Draws(answers))
    assert (result.answer, result.message) == ("Lima", "no two of 3 samples agree")
    assert result.confidence == pytest.approx(1 / 3)


async def test_agreement_can_be_required() -> None:
    result = await run(Draws(["FINAL('Rome')", "FINAL('Lima')", "FINAL('Oslo')"]), require_agreement=True)
    assert (result.answer, result.stop_reason) == (None, "no_agreement")
    assert str(result) == "(No answer: the samples do not agree (no two of 3 samples agree))"
    # what each has said is on record
    assert {sample.answer for sample in result.trajectory.samples} < {"Rome", "Lima", "Oslo"}


async def test_the_others_are_stopped_as_soon_as_they_cannot_change_the_answer() -> None:
    model = Draws(["FINAL('Lima')"] * 3, ["0", "0", "import time; time.sleep(60)"])
    began = time.monotonic()
    result = await run(model)
    assert time.monotonic() - began < 40
    assert (result.answer, result.message, result.confidence) == ("Lima", "2 of 2 samples agree", 1.0)
    ends = [child.trajectory.ended for child in WholeRun.gather(result.path).children]  # type: ignore[arg-type]
    stopped = [end.message for end in ends if end is not None and end.stop_reason == "cancelled"]
    # nobody else has stopped it; none of these where the run itself was the last one
    assert stopped in (["the other samples had agreed"], [])


async def test_one_that_fails_costs_no_answer() -> None:
    result = await run(Draws([ModelError("no such model"), "FINAL('Lima')", "FINAL('Lima')"]))
    assert (result.answer, result.message) == ("Lima", "2 of 3 samples agree")


async def test_of_one_that_fails_the_reason_is_told() -> None:
    result = await run(Draws(["FINAL('Lima')", ModelError("no such model"), ModelError("no such model")]))
    failed = [sample for sample in result.trajectory.samples if sample.answer is None]
    assert failed
    assert all("No answer: no such model · 0 tokens" in line(sample) for sample in failed)


async def test_where_all_fail_the_error_is_raised() -> None:
    with pytest.raises(ModelError, match="no such model"):
        await run(Draws([ModelError("no such model")] * 3))


async def test_stop_ends_all_of_them_with_what_there_is() -> None:
    model = Draws(["FINAL('Lima')"] * 3, ["import time; time.sleep(60)", "0", "import time; time.sleep(60)"])
    control = Control()

    def tell(event: Event) -> None:
        if isinstance(event, SampleSettled):
            control.stop()

    began = time.monotonic()
    result = await run(model, control=control, on_event=tell)
    assert time.monotonic() - began < 40
    assert result.stop_reason == "cancelled"
    assert result.answer == "Lima"


async def test_the_limits_are_those_of_all_together() -> None:
    answers = [f"FINAL({number})" for number in range(3)]
    result = await run(Draws(answers), limits=Limits(max_iterations=5, max_tokens=9_000))
    assert result.usage.total_tokens <= 9_000


async def test_people_are_told_of_each_sample() -> None:
    events: list[Event] = []
    result = await run(Draws([f"FINAL({number})" for number in range(3)]), on_event=events.append)
    reported = [event for event in events if isinstance(event, ChildReported)]
    assert {(event.parent, event.iteration, event.ordinal) for event in reported} == {
        (result.trajectory.run_id, 0, 1),
        (result.trajectory.run_id, 0, 2),
    }
    started = [event.event for event in reported if isinstance(event.event, RunStarted)]
    assert sorted(event.options["sample"] for event in started) == [2, 3]
    assert sum(isinstance(event, SampleSettled) for event in events) == 2
    assert isinstance(events[-1], RunEnded)


async def test_the_notebook_and_the_exports_show_what_each_has_said() -> None:
    result = await run(Draws(["FINAL('Rome')", "FINAL('Lima <b>')", "FINAL('Oslo')"]))
    assert result.path is not None
    notebook = nbformat.read(result.path, as_version=4)
    nbformat.validate(notebook)
    [listed] = [cell for cell in notebook.cells if cell.metadata.get("rlm", {}).get("role") == "samples"]
    assert "Sample 2" in listed.source
    assert "Sample 3" in listed.source
    assert "<b>" not in listed.source
    assert Trajectory.load(result.path).records == result.trajectory.records
    whole = WholeRun.gather(result.path)
    page = export.to_html(whole)
    assert "Sample 2" in page
    # the export carries the other runs whole
    again = result.save("whole.ipynb")
    assert len(WholeRun.gather(again).children) == 2


async def test_a_follow_up_goes_to_the_first_kernel_once() -> None:
    model = Draws(["answer = 'further' if 'seen' in globals() else 'Lima'\nseen = True\nFINAL(answer)"] * 4)
    rlm = RLM(model, samples=3, limits=Limits(max_iterations=5))
    running = rlm.start("Which city?", "a long text", keep_kernel=True)
    first = await asyncio.to_thread(running.result)
    with first:
        further = await asyncio.to_thread(first.ask, "And now?")
        assert (first.answer, further.answer) == ("Lima", "further")
        assert further.trajectory.samples == ()


async def test_a_recorded_run_is_replayed_with_its_vote() -> None:
    model = Draws(["FINAL('Rome')", "FINAL('Lima')", "FINAL('Lima')"], ["0", "0", "0"])
    result = await run(model)
    assert result.path is not None
    replayed = await asyncio.to_thread(RLM.replay, result.path)
    if result.trajectory.iterations[-1].cells[-1].source != "FINAL('Rome')":
        pytest.skip("the first sample was stopped before it had answered")
    assert replayed.same, str(replayed)


async def test_a_fork_is_one_run() -> None:
    result = await run(Draws([f"FINAL({number})" for number in range(4)]))
    assert result.path is not None
    model = ScriptedModel([block("FINAL('other')")])
    fork = await RLM.afork(result.path, 1, model=model)
    assert (fork.answer, fork.trajectory.samples) == ("other", ())
    assert "samples" not in fork.trajectory.started.options
    Path("other.json").write_text(json.dumps(["```repl\nFINAL('other')\n```"]))
    done = cli("fork", str(result.path), "--at", "1", "-m", "scripted/other.json", "--yes", "--save", "fork.ipynb")
    assert (done.code, done.out.strip()) == (0, "other"), done.err
    assert Trajectory.load("fork.ipynb").samples == ()


KILLED = """
import sys, time
from rlm_jupyter import RLM, Limits
from rlm_jupyter.types.events import SampleSettled
from tests.runs.test_samples import Draws
def tell(event):
    if isinstance(event, SampleSettled):
        print("settled", flush=True)
model = Draws(["FINAL('Lima')", "FINAL('Rome')", "FINAL('Lima')"],
              ["import time; time.sleep(20)", "0", "import time; time.sleep(20)"])
RLM(model, samples=3, limits=Limits(max_iterations=5), save="killed.ipynb").completion(
    "Which city?", "a long text", on_event=tell)
"""


@pytest.mark.slow
async def test_a_run_that_was_killed_goes_on_with_all_its_samples(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    env = os.environ | {"PYTHONPATH": str(root)}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=env
    ) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "settled\n"
        time.sleep(1.0)  # the others are in their cells
        killed.send_signal(signal.SIGKILL)
    saved = SavedRun.load("killed.ipynb")
    assert [sample.answer for sample in saved.trajectory.samples] == ["Rome"]
    started = len(saved.children())
    model = Draws(["FINAL('Lima')"] * 3)
    result = await RLM.aresume("killed.ipynb", model=model)
    assert (result.answer, result.message) == ("Lima", "2 of 3 samples agree")
    # what had ended was not asked again, and what had begun was resumed
    assert len(SavedRun.load("killed.ipynb").children()) == max(started, 2)
    assert [sample.sample for sample in result.trajectory.samples] == [2, 3] or [
        sample.sample for sample in result.trajectory.samples
    ] == [3, 2]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"samples": 0}, "samples is a whole number from 1 on, not 0."),
        ({"samples": "3"}, "samples is a whole number from 1 on, not '3'."),
        ({"samples": 99}, "there may be 8 kernels at once: raise Limits"),
        ({"require_agreement": True}, "set samples, to 3 for instance"),
        ({"strategy": "best"}, "strategy is loop or auto, not 'best'."),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_starts(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        RLM(ScriptedModel([]), **options)


def test_a_model_that_always_says_the_same_is_asked_once() -> None:
    with pytest.raises(ConfigurationError, match="same run 3 times: extractive/bm25 always gives the same reply"):
        RLM("extractive", samples=3)
    with pytest.raises(ConfigurationError, match="its temperature is 0"):
        RLM("openai/gpt-5", samples=3, api_key="k", model_options={"temperature": 0})


def test_approval_is_of_one_run() -> None:
    with pytest.raises(ConfigurationError, match="leave samples out"):
        RLM(ScriptedModel([]), samples=2).start("What?", "text", approve=True)


def test_the_record_of_one_run_is_as_it_was() -> None:
    started = json.dumps(RLM(ScriptedModel([])).settings.sampling)
    assert "samples" not in started
