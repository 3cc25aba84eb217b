"""Keys, files, network, other processes: what a cell may try, and what stops it."""

from __future__ import annotations

import pytest

from tests.security.attempts import ATTEMPTS, Attempt
from tests.security.conftest import Machine


def _of(*without: str) -> list[object]:
    return [pytest.param(a, id=a.name) for a in ATTEMPTS if not without or a.without in without]


@pytest.mark.parametrize("attempt", _of())
def test_the_sandbox_stops(boxed: Machine, attempt: Attempt) -> None:
    said = boxed.attack(attempt.source)
    assert "[ok]" in said, said
    assert "GOT" not in said


@pytest.mark.parametrize("attempt", _of())
def test_a_container_stops(contained: Machine, attempt: Attempt) -> None:
    said = contained.attack(attempt.source)
    assert "[ok]" in said, said
    assert "GOT" not in said


@pytest.mark.parametrize("attempt", _of("stopped"))
def test_also_without_a_sandbox_this_is_stopped(bare: Machine, attempt: Attempt) -> None:
    said = bare.attack(attempt.source)
    assert "[ok]" in said, said
    assert "GOT" not in said


@pytest.mark.parametrize("attempt", _of("succeeds"))
def test_without_a_sandbox_this_succeeds(bare: Machine, attempt: Attempt) -> None:
    """What the documentation says of `sandbox="none"`; and the proof that the attempts are real ones."""
    assert "GOT" in bare.attack(attempt.source)


@pytest.mark.parametrize("kind", ["boxed", "contained"])
def test_sub_calls_and_data_libraries_work_in_the_sandbox(kind: str, request: pytest.FixtureRequest) -> None:
    source = (
        "import multiprocessing, pandas as pd, sqlite3, subprocess\n"
        "print(llm_query('a'), *llm_query_batched(['b', 'c']))\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool: print(sum(pool.map(abs, [-1, -2])))\n"
        "print(subprocess.run(['ls', '/usr'], capture_output=True).returncode, pd.DataFrame({'a': [1]}).size)\n"
        "!echo from a shell"
    )
    said = request.getfixturevalue(kind).attack(source)
    assert said.split() == ["echo", "a", "echo", "b", "echo", "c", "3", "0", "1", "from", "a", "shell", "[ok]"]
