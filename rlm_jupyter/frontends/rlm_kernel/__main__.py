"""Start the RLM kernel, as its kernelspec does: `python -m rlm_jupyter.frontends.rlm_kernel -f CONNECTION_FILE`."""

from __future__ import annotations

from rlm_jupyter.frontends.rlm_kernel.app import RLMKernelApp

if __name__ == "__main__":
    RLMKernelApp.launch_instance()
