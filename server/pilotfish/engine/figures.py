"""What a turn used, and how much it may still use."""

from __future__ import annotations

from decimal import Decimal

from pydantic_ai import UsageLimits
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RunUsage

from pilotfish.core.records import Usage
from pilotfish.settings import Settings

MAX_TOKENS = 1 << 40  # that a provider may say it counted: sums of more would not fit into the ledger


def limits(settings: Settings, used: Usage) -> UsageLimits:
    """What is left for a run of a turn that has used so much."""
    tokens, cost = settings.budget.tokens, settings.budget.cost
    return UsageLimits(
        request_limit=max(1, settings.max_iterations - used.requests),
        total_tokens_limit=None if tokens is None else max(1, tokens - used.input_tokens - used.output_tokens),
        cost_limit=None
        if cost is None
        else max(Decimal("0.000001"), Decimal(str(cost)) - Decimal(str(used.cost or 0))),
    )


def usage(run: RunUsage) -> Usage:
    return Usage(
        input_tokens=_counted(run.input_tokens),
        output_tokens=_counted(run.output_tokens),
        cached_tokens=_counted(run.cache_read_tokens),
        cost=float(run.cost) if run.cost is not None else None,
    )


def context_used(response: ModelResponse) -> int:
    """How much of the context window a request and its answer fill."""
    return _counted(response.usage.input_tokens) + _counted(response.usage.output_tokens)


def _counted(tokens: float) -> int:
    """A number of tokens, whatever the provider says."""
    return int(min(max(tokens, 0), MAX_TOKENS))
