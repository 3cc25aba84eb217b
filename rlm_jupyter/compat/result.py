"""`RLMChatCompletion`: a result in the shape of the reference implementation's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from rlm_jupyter.run.result import Result
from rlm_jupyter.types.endings import no_answer


@dataclass(frozen=True)
class ModelUsageSummary:
    """What one model was asked."""

    total_calls: int
    total_input_tokens: int
    total_output_tokens: int
    total_cost: float | None = None
    """US dollars; `None`: its price is not known."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, without what is not known."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Undo `to_dict`."""
        return cls(**data)


@dataclass(frozen=True)
class UsageSummary:
    """What all models were asked: root, sub-calls and children."""

    model_usage_summaries: dict[str, ModelUsageSummary]
    """By the model's name."""

    @property
    def total_input_tokens(self) -> int:
        """Tokens read, by all models."""
        return sum(one.total_input_tokens for one in self.model_usage_summaries.values())

    @property
    def total_output_tokens(self) -> int:
        """Tokens written, by all models."""
        return sum(one.total_output_tokens for one in self.model_usage_summaries.values())

    @property
    def total_cost(self) -> float | None:
        """US dollars, of the models whose price is known; `None`: of none."""
        costs = [one.total_cost for one in self.model_usage_summaries.values() if one.total_cost is not None]
        return sum(costs) if costs else None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        data: dict[str, Any] = {
            "model_usage_summaries": {name: one.to_dict() for name, one in self.model_usage_summaries.items()}
        }
        return data if self.total_cost is None else data | {"total_cost": self.total_cost}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Undo `to_dict`."""
        summaries = data["model_usage_summaries"]
        return cls({name: ModelUsageSummary.from_dict(one) for name, one in summaries.items()})


@dataclass(frozen=True)
class RLMChatCompletion:
    """What `completion` gives."""

    root_model: str
    prompt: Any
    """As it was given."""
    response: str
    """The answer; empty where there is none, which `error` explains."""
    usage_summary: UsageSummary
    execution_time: float
    """Seconds."""
    metadata: dict[str, Any] | None = None
    """`run_metadata` and `iterations`, where there is a logger."""
    error: str | None = None
    result: Result | None = None
    """Ours, which has more: value, record, notebook. Not part of `to_dict`."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        data = {
            "root_model": self.root_model,
            "prompt": self.prompt,
            "response": self.response,
            "usage_summary": self.usage_summary.to_dict(),
            "execution_time": self.execution_time,
        }
        more = {"metadata": self.metadata, "error": self.error}
        return data | {name: value for name, value in more.items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Undo `to_dict`."""
        return cls(**{**data, "usage_summary": UsageSummary.from_dict(data["usage_summary"])})

    @classmethod
    def of(cls, result: Result, model: str, prompt: object, metadata: dict[str, Any] | None) -> Self:
        """Make it of a result.

        Parameters
        ----------
        model
            As the caller has named it.
        """
        used = {
            name: ModelUsageSummary(one.requests, one.usage.input_tokens, one.usage.output_tokens, one.cost)
            for name, one in result.usage_by_model.items()
        }
        error = no_answer(result.stop_reason, result.message) if result.answer is None else None
        usage = UsageSummary(used)
        return cls(model, prompt, result.answer or "", usage, result.seconds, metadata, error, result)
