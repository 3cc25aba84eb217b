"""The package's shape: no import cycles, no giants, broad excepts only at boundaries that the architecture names."""

from __future__ import annotations

import ast
import graphlib
import re
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "rlm_jupyter").rglob("*.py"))
MOST_LINES = 60
_LONG = {
    "batch/of_rlm.py": {"batch"},
    "compat/rlm.py": {"__init__"},
    "kernel/guest/subcall_functions.py": {"functions"},
    "models/__init__.py": {"load_model"},
    "rlm.py": {"__init__"},
    "run/budget/request.py": {"complete"},
    "run/session.py": {"answer"},
}
"""Functions whose parameters take most of their lines."""
MOST_LINES_OF_A_FILE = 300
_BROAD = {"Exception", "BaseException"}


def test_no_module_imports_itself_by_way_of_others_not_even_for_its_types() -> None:
    graph = grimp.build_graph("rlm_jupyter", exclude_type_checking_imports=False, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    graphlib.TopologicalSorter(imports).prepare()  # raises CycleError, which names them


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_function_is_longer_than_a_screen(path: Path) -> None:
    functions = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    long = {node.name for node in functions if (node.end_lineno or 0) - node.lineno >= MOST_LINES}
    assert long <= _LONG.get(path.relative_to(ROOT / "rlm_jupyter").as_posix(), set())


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_long_file_says_why_it_is_one(path: Path) -> None:
    text = path.read_text()
    says_why = "Long " in (ast.get_docstring(ast.parse(text)) or "")
    assert text.count("\n") <= MOST_LINES_OF_A_FILE or says_why


def broad(path: Path) -> Iterator[ast.AST]:
    """Handlers of any exception that do not raise."""
    for node in ast.walk(ast.parse(path.read_text())):
        is_broad = isinstance(node, ast.ExceptHandler) and isinstance(node.type, ast.Name) and node.type.id in _BROAD
        if is_broad and not any(isinstance(inner, ast.Raise) for inner in ast.walk(node)):
            yield node


def test_any_exception_is_caught_only_at_the_boundaries_that_the_architecture_names() -> None:
    chapter = (ROOT / "docs" / "architecture.md").read_text().partition("## Boundaries")[2]
    named = [(ROOT / "docs" / link).resolve() for link in re.findall(r"\]\((\.\./[^)]+)\)", chapter)]
    caught = {path for path in MODULES if any(broad(path))}
    assert caught
    assert {path for path in caught if not any(path.is_relative_to(place) for place in named)} == set()


_NAMED_FILE = re.compile(r"`([\w/]+\.(?:py|json|ts))`")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_files_that_a_docstring_names_are_there(path: Path) -> None:
    package = ROOT / "rlm_jupyter"
    for name in _NAMED_FILE.findall(path.read_text()):
        places = [ROOT, package, *(folder for folder in path.parents if folder.is_relative_to(package))]
        assert any((place / name).exists() for place in places), name
