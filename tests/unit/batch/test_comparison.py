"""Two batches compared: pairs, intervals, chance, and what can't be compared."""

from __future__ import annotations

import csv
import itertools
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from rlm_jupyter.batch.comparison import Comparison, Pair, compare
from rlm_jupyter.batch.judge import Judge
from rlm_jupyter.batch.results import ResultsFile
from rlm_jupyter.batch.row import ResultRow
from rlm_jupyter.batch.scoring import Score, Scoring
from rlm_jupyter.frontends.cli.main import main
from rlm_jupyter.types.errors import ConfigurationError


def written(path: Path, scores: Mapping[str, float | None]) -> Path:
    rows: list[dict[str, Any]] = [{"key": key, "answer": f"A{key}", "score": score} for key, score in scores.items()]
    match path.suffix:
        case ".csv":
            with path.open("w", newline="") as file:
                writer = csv.DictWriter(file, ["key", "answer", "score"])
                writer.writeheader()
                writer.writerows(rows)
        case ".parquet":
            pa.parquet.write_table(pa.Table.from_pylist(rows), path)
        case _:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def of(*scores: tuple[float, float]) -> Comparison:
    return Comparison(("a", "b"), [Pair(str(number), ("x", "y"), pair) for number, pair in enumerate(scores)], 0)


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_items_are_paired_by_their_key(tmp_path: Path, suffix: str) -> None:
    one = written(tmp_path / f"one{suffix}", {"1": 1.0, "2": 0.0, "3": 1.0, "4": None, "5": 1.0})
    other = written(tmp_path / f"other{suffix}", {"3": 1.0, "2": 1.0, "1": 1.0, "4": 1.0, "9": 0.0})
    found = compare(one, other)
    assert [(pair.key, pair.scores) for pair in found.pairs] == [("1", (1, 1)), ("2", (0, 1)), ("3", (1, 1))]
    assert found.pairs[0].answers == ("A1", "A1")
    assert (found.unpaired, found.unscored) == (2, 1)
    assert [its.share for its in found.accuracies] == [pytest.approx(2 / 3), 1.0]
    assert found.gain == pytest.approx(1 / 3)
    assert [[pair.key for pair in pairs] for pairs in found.better] == [[], ["2"]]


def test_the_interval_is_that_of_bonett_and_price() -> None:
    low, high = of(*[(0, 1)] * 10, *[(1, 0)] * 3, *[(1, 1)] * 50, *[(0, 0)] * 37).interval
    better, worse = 11 / 102, 4 / 102
    half = 1.959964 * math.sqrt((better + worse - (better - worse) ** 2) / 102)
    assert [low, high] == pytest.approx([better - worse - half, better - worse + half])


def test_no_difference_is_no_certainty() -> None:
    low, high = of((1, 1), (0, 0)).interval
    assert low < -0.5
    assert high > 0.5


@pytest.mark.parametrize(
    ("scores", "p"),
    [
        ([(0, 1)] * 10 + [(1, 0)] * 3, 0.0922852),  # as mcnemar(exact=True) of statsmodels
        ([(0, 1)] * 9, 2 / 2**9),
        ([(0.25, 0.5)] * 2 + [(1, 0)] * 2, 1.0),
        ([(1, 1)] * 5, 1.0),
    ],
)
def test_how_likely_it_is_by_chance(scores: list[tuple[float, float]], p: float) -> None:
    assert of(*scores).p == pytest.approx(p, rel=1e-4)


def test_what_can_t_be_compared_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scored = written(tmp_path / "scored.jsonl", {"1": 1.0, "3": None})
    for other, said in [
        (written(tmp_path / "other.jsonl", {"2": 1.0}), "no item in common"),
        (
            written(tmp_path / "unscored.jsonl", {"1": None}),
            "has no scores: give the same batch again with expected=…, ",
        ),
        (written(tmp_path / "unlike.jsonl", {"1": None, "3": 1.0}), "have scores of none of the same items"),
        (tmp_path / "missing.jsonl", "can't be read: No such file"),
        (tmp_path / "notes.txt", "its name ends in"),
    ]:
        with pytest.raises(ConfigurationError, match=said) as error:
            compare(scored, other)
        assert "--" not in str(error.value)
        if (
            option := {"unscored": "--expected", "other": "--key", "unlike": "--retry failed"}.get(other.stem)
        ) is not None:
            assert main(["compare", str(scored), str(other)]) == 2
            assert option in capsys.readouterr().err


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = written(tmp_path / "one.jsonl", {str(number): float(number > 8) for number in range(12)})
    other = written(tmp_path / "other.jsonl", {str(number): 1.0 for number in range(13)})
    assert main(["compare", str(one), str(other)]) == 0
    said = capsys.readouterr().out
    assert "accuracy 25.0% of 12" in said
    assert "difference +75.0 points" in said
    assert "0 better in the first, 9 in the second, 3 the same" in said
    assert "p = 0.0039 (sign test): chance hardly explains it" in said
    assert said.endswith("left out, as in one of the two alone: 1 item\n")
    unjudged = written(tmp_path / "unjudged.jsonl", dict.fromkeys(map(str, range(12)), 1.0) | {"3": None, "4": None})
    assert main(["compare", str(one), str(unjudged)]) == 0
    assert capsys.readouterr().out.endswith("left out, as without a score in one of the two: 2 items\n")
    assert main(["compare", str(one), str(other), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [pair["key"] for pair in data["better_in_second"]] == [str(number) for number in range(9)]
    assert main(["compare", str(one), str(tmp_path / "none.csv")]) == 2
    assert "can't be read" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_scores_by_different_measures_are_refused(tmp_path: Path, suffix: str) -> None:
    judges = [Judge("openai/a"), Judge("openai/b"), Judge("openai/a", rubric="Units count.")]
    ways: list[Score] = ["exact", "number", *judges, max]
    paths = []
    for number, way in enumerate(ways):
        file = ResultsFile(tmp_path / f"{number}{suffix}", None)
        file.folder.mkdir()
        # of the last row there is no score, as where a judge fails
        scored = [ResultRow(key=str(row), score=score, scored_by=Scoring("right", way).measure) for row, score in
                  enumerate((1.0, 0.0, None))]  # fmt: skip
        file.write(scored, lambda sha256: None)
        paths.append(file.path)
    for one, other in itertools.combinations(paths, 2):
        with pytest.raises(ConfigurationError, match=r"^\S+ is scored by .+: only scores by the same measure"):
            compare(one, other)
    with pytest.raises(ConfigurationError, match=r"scored by exact, \S+ by judge openai/a: "):
        compare(paths[0], paths[2])
    assert compare(paths[2], paths[2]).unscored == 1


def test_of_what_may_be_chance_no_more_is_said() -> None:
    assert str(of(*[(1, 0)] * 4, *[(1, 1)] * 4)).endswith("p = 0.12 (sign test): chance could explain it")
