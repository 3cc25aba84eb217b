"""A host that works through a batch until it is killed: `python -m tests.faults.batch_host URL OUT ITEMS`."""

from __future__ import annotations

import sys

from rlm_jupyter import RLM

if __name__ == "__main__":
    url, out, items = sys.argv[1:]
    rlm = RLM("openai/any", base_url=url, api_key="k", sandbox="none", prices={"openai/any": (1.0, 2.0)})
    rows = [{"word": f"word-{number}."} for number in range(int(items))]
    print(rlm.batch(rows, prompt="Which is {word}", context="word", out=out, concurrency=6))
