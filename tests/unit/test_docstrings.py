"""Docstrings of functions begin with an imperative verb.

Ruff's D401 knows the wrong forms of verbs, and passes over what is no verb at all. What a sentence begins with that has
none is mostly one of few words, which are all here.
"""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "rlm_jupyter"
READ_BY_MODELS = PACKAGE / "kernel" / "guest" / "subcall_functions.py"
"""Which is written for them."""
NO_VERBS = frozenset(
    re.findall(
        r"\w+",
        """
        a about after all an another as at before between both by each either every everything few for from he her
        his how i if in into it itself its more most my no nobody none nothing of on one or other our over several
        she since some somebody something than that the their them there these they this those though through to two
        under until up we what whatever when whenever where whether which while who whoever whose why with within
        without you your
        """,
    )
)


def begins(tree: ast.AST) -> list[tuple[str, str]]:
    """The name of each function that has a docstring, and the first word of that; properties are described."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (text := ast.get_docstring(node)):
            is_property = any("property" in ast.unparse(one) for one in node.decorator_list)
            word = re.match(r"[\w']+", text)
            if not is_property:
                found.append((node.name, "" if word is None else word[0].lower()))
    return found


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path != READ_BY_MODELS
        for name, word in begins(ast.parse(path.read_text(encoding="utf-8")))
        if not word or word in NO_VERBS
    ]
    assert not wrong
