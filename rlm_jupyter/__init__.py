"""A Recursive Language Model (arXiv 2512.24601) that lives in Jupyter.

`RLM("provider/model").completion(prompt, context=text)` answers a question about a text far longer than a
model can read, by letting the model drive a real IPython kernel; the run is a notebook.

Names load on first use: `import rlm_jupyter` brings in no SDK, no kernel and no widget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlm_jupyter.batch.judge import Judge as Judge
    from rlm_jupyter.kernel.sandbox.sandbox import Sandbox as Sandbox
    from rlm_jupyter.parsing import find_final_answer as find_final_answer
    from rlm_jupyter.rlm import RLM as RLM
    from rlm_jupyter.run.artefacts import Artefact as Artefact
    from rlm_jupyter.run.files.load import load as load
    from rlm_jupyter.run.result import Result as Result
    from rlm_jupyter.run.tool import Tool as Tool
    from rlm_jupyter.types.limits import Limits as Limits
    from rlm_jupyter.types.pdf_pages import PdfPages as PdfPages

    __version__: str

_HOMES = {
    "Artefact": "rlm_jupyter.run.artefacts",
    "Judge": "rlm_jupyter.batch.judge",
    "Limits": "rlm_jupyter.types.limits",
    "PdfPages": "rlm_jupyter.types.pdf_pages",
    "RLM": "rlm_jupyter.rlm",
    "Result": "rlm_jupyter.run.result",
    "Sandbox": "rlm_jupyter.kernel.sandbox.sandbox",
    "Tool": "rlm_jupyter.run.tool",
    "find_final_answer": "rlm_jupyter.parsing",
    "load": "rlm_jupyter.run.files.load",
}
__all__ = [
    "RLM",
    "Artefact",
    "Judge",
    "Limits",
    "PdfPages",
    "Result",
    "Sandbox",
    "Tool",
    "__version__",
    "find_final_answer",
    "load",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        # of the installed distribution, read when it is wanted: the import costs a hundredth of a second
        from importlib.metadata import version

        globals()[name] = version(__name__)
        return globals()[name]
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: Any) -> None:
    """Register `%rlm` and its kin: what `%load_ext rlm_jupyter` calls."""
    from rlm_jupyter.frontends.magics.rlm import load

    load(shell)
