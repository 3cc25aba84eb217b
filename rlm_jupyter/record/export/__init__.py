"""A run in other forms: one notebook that needs no other file, a page, and JSON lines.

Whatever is exported is a `WholeRun`: the record, the context and the runs that it started. It is read from
a run's folder while the run goes on, after it, or after its host was killed, and from an exported notebook.
"""

from rlm_jupyter.record.export.bundle import WholeRun
from rlm_jupyter.record.export.html import to_html
from rlm_jupyter.record.export.jsonl import to_jsonl
from rlm_jupyter.record.export.notebook import to_notebook

__all__ = ["WholeRun", "to_html", "to_jsonl", "to_notebook"]
