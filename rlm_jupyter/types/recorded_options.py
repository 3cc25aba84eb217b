"""`RecordedOptions`: what else the first record of a run says, so that it can be resumed."""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class RecordedOptions(TypedDict, total=False):
    """Options of a run by name, in plain data; those that have their default are left out.

    Typed so that a misspelt name is found by mypy. What an earlier version wrote may have other names as well.
    """

    kernel_name: str
    cwd: str
    kernel_url: str
    """Its kernel was on this Jupyter server."""
    lent: bool
    """It ran in a kernel that was there already."""
    kernel: str
    """`forked`: its kernel was a fork, of a template or of another kernel."""
    sandbox: dict[str, Any]
    insurance: bool
    snapshot: bool
    """What earlier versions did in place of `insurance`."""
    preload: list[str]
    termination: Any
    reward: Any
    answer: dict[str, Any]
    """A JSON schema."""
    answer_validators: bool
    """Its type has functions of the user's that judge an answer; the schema has not."""
    outputs: list[dict[str, Any]]
    output_dir: str
    tools: list[dict[str, Any]]
    sub_tools: list[dict[str, Any]]
    mcp: list[str]
    sub_models: list[str]
    base_url: str
    """Its models were asked at this address, which was given."""
    window: int
    """The root model's, where it was given."""
    model_options: dict[str, Any]
    sub_model_options: dict[str, Any]
    prices: dict[str, list[Any]]
    system_prompt_extra: str
    compact_at: float
    see_figures: str
    samples: int
    require_agreement: bool
    strategy: str
    sample: int
    """Its number, of one of several samples."""
    session: str
    ledger: Literal["prompt", "session"]
    prompts_before: int
    after: list[dict[str, Any]]
    """The runs before it in its kernel: `run_id`, and whether `history` has them (`told`)."""
    contexts: list[dict[str, Any]]
    """Those that its kernel had been given before."""
    restarted: dict[str, Any]
    """What came back of a kernel that had died before it began: `said`, `names`, `iteration`, `block`."""
