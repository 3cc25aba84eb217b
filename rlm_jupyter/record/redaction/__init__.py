"""What nobody should be sent by accident: keys, home folders and user names, taken out of a run's record."""

from rlm_jupyter.record.redaction.redactor import Redactor

__all__ = ["Redactor"]
