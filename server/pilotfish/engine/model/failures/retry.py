"""Decides whether a failed model request is sent again, and after how many seconds."""

from __future__ import annotations

from collections.abc import Callable

from pilotfish.errors import TurnError

PATIENCE = 90.0  # seconds that the retries of one request may wait in all
LONGEST_BACKOFF = 30.0
MAX_TRIES = 4  # of a request that failed for a reason that rarely passes by waiting
MAX_TRIES_BUSY = 12  # of a request that a busy provider refused


class Retries:
    """The retries of one turn. A response resets them."""

    def __init__(self, jitter: Callable[[], float]) -> None:
        """`jitter` returns a random number from 0 to 1. It keeps several clients from returning at the same time."""
        self._jitter = jitter
        self._failed = 0
        self._waited = 0.0
        self._answers = 0

    def wait_after(self, problem: TurnError, answers: int) -> float | None:
        """Seconds until the next try, as the provider asks or growing. None if the request is not sent again.

        `answers` counts the responses so far.
        """
        if answers != self._answers:
            self._failed, self._waited, self._answers = 0, 0.0, answers
        self._failed += 1
        busy = problem.kind in ("rate_limit", "overloaded")
        left = PATIENCE - self._waited
        if not problem.retryable or left < 1 or self._failed >= (MAX_TRIES_BUSY if busy else MAX_TRIES):
            return None
        if problem.retry_after is None:
            backoff = min(0.5 * 2**self._failed, LONGEST_BACKOFF) * (0.75 + self._jitter() / 2)
            wait = min(backoff, left)
        elif (wait := problem.retry_after) > left:
            return None  # the user decides whether to wait that long
        self._waited += wait
        return wait
