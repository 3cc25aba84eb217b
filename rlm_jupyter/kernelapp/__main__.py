"""Start the RLM kernel, as its kernelspec does: `python -m rlm_jupyter.kernelapp -f CONNECTION_FILE`."""

from __future__ import annotations

from rlm_jupyter.kernelapp.app import RLMKernelApp

if __name__ == "__main__":
    RLMKernelApp.launch_instance()
