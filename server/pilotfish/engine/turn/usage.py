"""Counts the usage of a turn, enforces its budget and reports it to the client.

Hides: the library's usage and limits. Promises: requests of subagents and summaries count like those of the turn
itself; no request is sent after the budget is used up.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from decimal import Decimal
from urllib.parse import urlsplit

from pydantic_ai import UsageLimits
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RunUsage

from pilotfish.config.settings import Budget
from pilotfish.conversation.records import Record, RequestOrigin, Usage, UsageRecord
from pilotfish.engine.model.catalog.providers import LOOPBACK
from pilotfish.engine.turn.context_window import ContextFill

MAX_TOKENS = 1 << 40  # cap for counts that a provider reports; larger sums do not fit into the ledger


class Meter:
    """The usage of one turn, or of a summary between two turns.

    `run` and `limits` are passed to every run of the library that belongs to the turn: the library adds the
    usage that a provider reports to `run`, and raises `UsageLimitExceeded` when that goes over `limits`.
    """

    def __init__(
        self,
        turn_id: str,
        emit: Callable[[Record], None],
        *,
        context: ContextFill,
        budget: Budget | None = None,
        calls: Sized = (),
    ) -> None:
        self.run = RunUsage()
        self.limits = _Limits(
            request_limit=None,  # the loop limits iterations, the subagent limits steps
            total_tokens_limit=budget.tokens if budget else None,
            cost_limit=Decimal(str(budget.cost)) if budget and budget.cost is not None else None,
        )
        self._turn_id = turn_id
        self._emit = emit
        self._calls = calls
        self._requests = 0
        self._unpriced = 0
        self._is_unpriced = False
        self._context = context

    @property
    def total(self) -> Usage:
        """The usage so far."""
        return Usage(
            input_tokens=_plausible(self.run.input_tokens),
            output_tokens=_plausible(self.run.output_tokens),
            cached_tokens=_plausible(self.run.cache_read_tokens),
            reasoning_tokens=_plausible(self.run.output_reasoning_tokens),
            requests=self._requests,
            tool_calls=len(self._calls),
            cost=float(self.run.cost) if self.run.cost is not None else None,
            unpriced_requests=self._unpriced,
        )

    def request_begins(self) -> None:
        """Count a request that is about to be sent. Raises `UsageLimitExceeded` if the budget is used up."""
        self.limits.check_before_request(self.run)
        self.limits.check_cost(self.run, warn_if_cost_unavailable=False)
        self._requests += 1

    def has_room(self) -> bool:
        """Whether the budget has room for one more request like the last one."""
        limit, cost = self.limits.total_tokens_limit, self.limits.cost_limit
        tokens_left = limit is None or self.run.total_tokens + 2 * self._context.used < limit
        return tokens_left and (cost is None or self.run.cost is None or self.run.cost * 2 < cost)

    def set_context(self, response: ModelResponse, window: int | None) -> None:
        """Set how full the context is, from a response of the turn itself."""
        used = _plausible(response.usage.input_tokens) + _plausible(response.usage.output_tokens)
        self._context = ContextFill(used, window)
        self._is_unpriced = response.usage.cost is None and not _is_free(response)

    def report(self, origin: RequestOrigin) -> None:
        """Record the usage of the turn after a request of this origin. Subagents use the model of the turn."""
        self._unpriced += self._is_unpriced
        self._emit(
            UsageRecord(
                turn_id=self._turn_id,
                usage=self.total,
                context_used=self._context.used,
                context_window=self._context.window,
                origin=origin,
            )
        )


class _Limits(UsageLimits):
    """The library's limits without its warning that a provider reports no usage: a budget applies by default, so the
    user has not asked for it. `Usage` shows what was reported."""

    def check_tokens(self, usage: RunUsage) -> None:
        limit = self.total_tokens_limit
        if limit is not None and usage.total_tokens > limit:
            raise UsageLimitExceeded(f"the turn used {usage.total_tokens} tokens of its budget of {limit}")


def _is_free(response: ModelResponse) -> bool:
    """Whether the model runs in this process or on this machine."""
    if response.provider_url is None:
        return response.provider_name is None
    return urlsplit(response.provider_url).hostname in LOOPBACK and response.provider_name != "litellm"


def _plausible(tokens: float) -> int:
    """Clamp a token count from a provider to 0 … MAX_TOKENS."""
    return int(min(max(tokens, 0), MAX_TOKENS))
