"""`Estimate`: what a run may cost, before anything is asked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

from rlm_jupyter.models import Model
from rlm_jupyter.models.abilities import abilities_of
from rlm_jupyter.models.routing import Routing
from rlm_jupyter.models.suggested import priced_model_meant
from rlm_jupyter.record.catalog import list_runs
from rlm_jupyter.record.store import folder_of
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.budget.request_size import most_cost
from rlm_jupyter.run.context import AnyContext
from rlm_jupyter.run.lifecycle import first_messages
from rlm_jupyter.run.settings import Settings
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.suggestion import did_you_mean
from rlm_jupyter.types.tokens import BYTES_PER_TOKEN, DEFAULT_WINDOW, estimate_tokens
from rlm_jupyter.types.values import ContextInfo, Usage

_NEAREST = 5
"""Runs on record that a typical figure is the median of."""
_ALIKE = 4.0
"""How many times larger or smaller the context of such a run is, at most."""
_ITERATIONS, _REPLY_TOKENS, _SHOWN_TOKENS = 5, 500, 1_000
_SHORTER = 20
"""How many times shorter than what it reads a sub-call's reply is."""
_LOOK_SECONDS = 1.0
"""For a page of a server that says how much its model reads."""
_BOUND = 4
"""How many times what a typical run costs is proposed as `max_cost`."""
MAX_COST = "max_cost"
"""What bounds a run whose cost is limited, in `Estimate.capped_by`."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run may cost; `str()` says it in a few lines."""

    model: str
    """`provider/model` that drives the run."""
    input_tokens: int
    """About how many tokens the first request has."""
    output_tokens: int
    """How many its reply may have."""
    input_cost: float | None
    """Of the first request without its reply, in US dollars; `None`: the model's price is not known."""
    request_cost: float | None
    """Of the first request, with a reply of that length."""
    run_cost: float | None
    """What the whole run can cost at most; `None`: a price is not known, or nothing bounds it."""
    typical_cost: float | None
    """What a run like it costs, in US dollars: see `typical_basis`; `None`: a price is not known."""
    typical_basis: str
    """What that rests on: runs on record, or an assumption."""
    capped_by: str
    """What bounds it, in a few words."""
    assumptions: tuple[str, ...]
    """What the figures rest on, each a sentence."""

    def __str__(self) -> str:
        first = f"First request: about {self.input_tokens:,} tokens to {self.model}"
        if self.input_cost is None or self.request_cost is None:
            first += f", whose price is not known.{did_you_mean(priced_model_meant(self.model))}"
        else:
            first += (
                f", {_dollars(self.input_cost)}; with a reply of {self.output_tokens:,} tokens (the maximum), "
                f"{_dollars(self.request_cost)}."
            )
        if self.run_cost is None:
            run = f"The whole run: not known ({self.capped_by})."
        elif not self.run_cost:
            run = "The whole run costs nothing."
        else:
            run = self._bound(self.run_cost)
        if self.typical_cost:
            run = f"The whole run: about {_dollars(self.typical_cost)} ({self.typical_basis}).\n{run}"
        return "\n".join([first, run, *(f"- {assumption}" for assumption in self.assumptions)])

    def _bound(self, most: float) -> str:
        proposed = _rounded_up(max(_BOUND * (self.typical_cost or 0.0), 2 * (self.request_cost or 0.0)))
        if self.capped_by == MAX_COST or proposed >= most:
            return f"The whole run: at most {_dollars(most)} ({self.capped_by})."
        return (
            f"To bound it, set max_cost, such as --max-cost {proposed:g}: the other limits ({self.capped_by}) allow "
            f"{_dollars(most)}, of which nearly all runs take a small part."
        )


def estimate(settings: Settings, prompt: str, context: AnyContext) -> Estimate:
    """Return what answering `prompt` may cost. Nothing is started, and no model is asked."""
    limits, routing = settings.limits, settings.routing
    unknown = _without_window(routing)
    model, sub_model = routing.model_for(0), routing.model_for(1)
    messages = first_messages(settings, context.info, prompt, Ledger(limits))
    first = sum(map(estimate_tokens, messages))
    cap = min(limits.max_output_tokens, max(model.window // 4, 1))
    run_cost, capped_by = _most(settings, first)
    typical_cost, typical_basis = _typical(settings, context.info, first)
    if typical_cost is not None and run_cost is not None:
        typical_cost = min(typical_cost, run_cost)
    assumptions = [
        f"A token has {BYTES_PER_TOKEN} bytes, as in English prose; code, tables and other languages have more tokens.",
        "Prices are those that you set" if settings.prices else "Prices are those of the list that genai-prices has",
    ]
    if settings.samples > 1 and typical_cost is not None:
        typical_cost *= settings.samples
        typical_basis += f"; times {settings.samples} samples"
    assumptions[1] += "; what a provider has in its cache costs less."
    if limits.max_cost is None:
        assumptions.append(
            f"At most {limits.max_iterations:,} replies, each of {cap:,} tokens, with {limits.output_chars:,} "
            f"characters of outputs shown after each."
        )
        if limits.max_subcalls:
            assumptions.append(
                f"At most {limits.max_subcalls:,} sub-calls, each filling the {sub_model.window:,} tokens that "
                f"{sub_model.name} reads; most runs use a small part of that."
            )
    assumptions += [
        f"That {name} reads {DEFAULT_WINDOW:,} tokens is assumed, for nobody says it: set window (--window) if need be."
        for name in unknown
    ]
    return Estimate(
        model=model.name,
        input_tokens=first,
        output_tokens=cap,
        input_cost=model.cost(Usage(first)),
        request_cost=most_cost(model, Usage(first, cap)),
        run_cost=run_cost,
        typical_cost=typical_cost,
        typical_basis=typical_basis,
        capped_by=capped_by,
        assumptions=tuple(assumptions),
    )


def _without_window(routing: Routing) -> list[str]:
    """Return the models of which nobody says how much they read; servers of one's own are asked."""
    finds = {model.name: abilities_of(model).find_window for model in routing.models}
    return [name for name, find in finds.items() if find is not None and not find(_LOOK_SECONDS)]


def _typical(settings: Settings, context: ContextInfo, first: int) -> tuple[float | None, str]:
    """Return what runs on record with these models and about such a context cost; else what an assumption comes to."""
    model, sub_model = settings.routing.model_for(0), settings.routing.model_for(1)
    runs = [] if settings.save is False else list_runs(folder_of(settings.save))
    distances = [
        (max(run.started.context.nbytes, 1) / max(context.nbytes, 1), run.ended.cost)
        for run in runs
        if (run.started.model, run.started.sub_model) == (model.name, sub_model.name)
        and run.ended is not None
        and run.ended.answer is not None
        and run.ended.cost is not None
    ]
    near = sorted((max(ratio, 1 / ratio), cost) for ratio, cost in distances)[:_NEAREST]
    near = [(times, cost) for times, cost in near if times <= _ALIKE]
    if near:
        count = f"{len(near)} run{'s' if len(near) > 1 else ''}"
        return median(cost for _, cost in near), f"the median of {count} on record, of contexts of about this size"
    grows = _REPLY_TOKENS + _SHOWN_TOKENS
    replies = [model.cost(Usage(first + i * grows, _REPLY_TOKENS)) for i in range(_ITERATIONS)]
    reading = sub_model.cost(Usage(context.nbytes // BYTES_PER_TOKEN, context.nbytes // BYTES_PER_TOKEN // _SHORTER))
    parts = [*replies, reading]
    basis = (
        f"assumed: {_ITERATIONS} replies of {_REPLY_TOKENS} tokens, {_SHOWN_TOKENS:,} tokens of outputs after each, "
        "and sub-calls that read all of the context once"
    )
    return (None if any(part is None for part in parts) else sum(part or 0.0 for part in parts)), basis


def _most(settings: Settings, first: int) -> tuple[float | None, str]:
    """Return what the whole tree can cost at most, and what bounds it."""
    limits, routing = settings.limits, settings.routing
    if limits.max_cost is not None:
        return limits.max_cost, MAX_COST
    if routing.unpriced:
        return None, f"the price of {routing.unpriced} is not known: set prices"
    most = settings.samples * _run(routing.model_for(0), limits, first)
    if limits.max_subcalls is None:
        whole = None
    else:
        depths = range(1, max(limits.max_depth, 1) + 1)
        dearest = max(_subcall(routing.model_for(depth), limits, first, depth) for depth in depths)
        whole = most + limits.max_subcalls * dearest
    if limits.max_tokens is not None:
        dearest = max(_dearest(model, limits.max_tokens) for model in routing.models)
        if whole is None or dearest < whole:
            return dearest, "max_tokens, all of the dearest kind"
    return whole, "max_iterations and max_subcalls" if whole is not None else "set max_cost"


def _run(model: Model, limits: Limits, first: int) -> float:
    """Return the cost of all replies of one run, and of the forced one."""
    cap = min(limits.max_output_tokens, max(model.window // 4, 1))
    grows = cap + limits.output_chars // BYTES_PER_TOKEN
    requests = (Usage(min(first + i * grows, model.window - cap), cap) for i in range(limits.max_iterations + 1))
    return sum(most_cost(model, request) or 0.0 for request in requests)


def _subcall(model: Model, limits: Limits, first: int, depth: int) -> float:
    """Return the cost of one of them: a plain one, or a child."""
    if depth < limits.max_depth:
        return _run(model, limits, first)
    cap = min(limits.max_output_tokens, max(model.window // 4, 1))
    return most_cost(model, Usage(model.window - cap, cap)) or 0.0


def _dearest(model: Model, tokens: int) -> float:
    return max(most_cost(model, Usage(tokens)) or 0.0, most_cost(model, Usage(0, tokens)) or 0.0)


def _rounded_up(cost: float) -> float:
    """Return a cost in dollars with one figure, and no less than a cent."""
    figure = 10.0 ** math.floor(math.log10(max(cost, 0.01)))
    return math.ceil(round(max(cost, 0.01) / figure, 6)) * figure


def _dollars(cost: float) -> str:
    return f"${cost:,.2f}" if cost >= 1 or not cost else f"${cost:.4f}"
