"""The command line, `jupyter rlm`: `main` calls a command of `commands`; the rest is what several of them share."""

ANSWERED = 0
"""Exit code: there is an answer; for commands that answer nothing: done."""
FAILED = 1
"""Exit code: ended without an answer, or with a draft of one, or failed."""
MISUSED = 2
"""Exit code: nothing was started or spent, as with wrong usage or configuration."""
INTERRUPTED = 130
"""Exit code: Ctrl-C, as shells give it."""
