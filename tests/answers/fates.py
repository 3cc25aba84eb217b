"""The ways in which a cell answers, and what else can become of that cell."""

from __future__ import annotations

from dataclasses import dataclass

SLEEP = "import time; time.sleep(60)"
DIE = "import os; os._exit(1)"
KILL = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"


@dataclass(frozen=True, slots=True)
class Way:
    """Lines of a cell that give an answer."""

    id: str
    lines: str
    answer: str
    first: str = ""
    """A line that must be the cell's first."""
    at_once: bool = True
    """Recorded when the call is made. The `answer` dict is looked at after the cell: it dies with its kernel."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a cell, before or after its lines that answer."""

    id: str
    before: str = ""
    after: str = ""
    status: str = "ok"
    told: str = ""
    """What the model reads where the answer does not count."""
    cell_seconds: float = 5.0

    def source(self, way: Way) -> str:
        """The whole cell."""
        return "\n".join(line for line in (way.first, self.before, way.lines, self.after) if line)

    def counts(self, way: Way) -> bool:
        """Whether the answer counts: everything that was said before the end does, if it could be kept."""
        return not self.before and (way.at_once or self.status != "died")


WAYS = (
    Way("FINAL(text)", "FINAL('hi')", "hi"),
    Way("FINAL(expression)", "FINAL(6*7)", "42"),
    Way("FINAL(name)", "x = 'value'\nFINAL(x)", "value"),
    Way("FINAL(dict)", "FINAL({'a': [1, 2]})", '{"a": [1, 2]}'),
    Way("FINAL(prose)", "FINAL(the answer (with parens))", "the answer (with parens)"),
    Way("FINAL_VAR(name)", "x = 'value'\nFINAL_VAR(x)", "value"),
    Way('FINAL_VAR("name")', "x = 'value'\nFINAL_VAR(\"x\")", "value"),
    Way("SUBMIT", "SUBMIT(answer='submitted')", "submitted"),
    Way("an alias", "done = FINAL\ndone('alias')", "alias"),
    Way("a helper", "def done(x):\n    FINAL(x)\ndone('helped')", "helped"),
    Way("a loop", "for i in range(3):\n    FINAL(i)", "0"),
    Way("a branch", "if context:\n    FINAL('taken')\nelse:\n    FINAL('not')", "taken"),
    Way("swallowed", "try:\n    FINAL('kept')\n    raise KeyError\nexcept BaseException:\n    pass", "kept"),
    Way("a thread", "import threading\nt = threading.Thread(target=FINAL, args=['t'])\nt.start(); t.join()", "t"),
    Way("await", "import asyncio\nawait asyncio.sleep(0)\nFINAL('awaited')", "awaited"),
    Way("a sub-call", "FINAL(llm_query('asked'))", "asked"),
    Way("%%time", "FINAL('timed')", "timed", first="%%time"),
    Way("answer[...]", 'answer["content"] = "done"\nanswer["ready"] = True', "done", at_once=False),
    Way("answer[...], ready first", 'answer["ready"] = True\nanswer["content"] = "done"', "done", at_once=False),
    Way("answer.update", 'answer.update(content="done", ready=True)', "done", at_once=False),
    Way("answer |=", 'answer |= {"content": "done", "ready": True}', "done", at_once=False),
    Way("answer =", 'answer = {"content": "done", "ready": True}', "done", at_once=False),
)

FATES = (
    Fate("succeeds"),
    Fate("fails before", before="1/0", status="error", told="ZeroDivisionError"),
    Fate("fails after", after="1/0", status="error"),
    Fate("exits before", before="raise SystemExit(3)", status="error", told="SystemExit"),
    Fate("exits after", after="raise SystemExit(3)", status="error"),
    Fate("times out before", before=SLEEP, status="interrupted", told="took too long", cell_seconds=1.0),
    Fate("times out after", after=SLEEP, status="interrupted", cell_seconds=1.0),
    Fate("dies before", before=DIE, status="died", told="The kernel died"),
    Fate("dies after", after=DIE, status="died"),
)

KILLED = (
    Fate("killed before", before=KILL, status="died", told="The kernel died"),
    Fate("killed after", after=KILL, status="died"),
)
