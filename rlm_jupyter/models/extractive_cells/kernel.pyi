# What stands in the kernel before the first cell.
from typing import Any

context: Any

def llm_query_batched(prompts: list[str]) -> list[str]: ...
def FINAL(value: object) -> None: ...  # noqa: N802
