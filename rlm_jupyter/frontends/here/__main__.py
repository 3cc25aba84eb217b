"""The driver: `python -m rlm_jupyter.frontends.here`, started by a `%%rlm --here` cell and spoken to through a pipe."""

from __future__ import annotations

from rlm_jupyter.frontends.here.driver import main

if __name__ == "__main__":
    main()
