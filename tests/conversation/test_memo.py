"""A memo computes a result once for each value and drops it with the value."""

from __future__ import annotations

import gc

from tests.support.history import parse, show

from pilotfish.conversation.memo import Memo
from pilotfish.conversation.messages import CanonicalMessage


def test_a_memo_computes_once_for_each_value_and_forgets_it_with_the_value() -> None:
    computed: list[str] = []

    def shown(message: CanonicalMessage) -> str:
        computed.append(show([message]))
        return computed[-1]

    memo = Memo(shown)
    (one,), (other,) = parse("user: hi"), parse("user: hi")
    assert [memo(one), memo(one), memo(other)] == ["user: hi"] * 3
    assert len(computed) == 2
    del one, other
    gc.collect()
    assert len(memo) == 0


def test_a_memo_does_not_keep_a_value_alive_that_is_its_own_result() -> None:
    memo: Memo[CanonicalMessage, CanonicalMessage] = Memo(lambda message: message)
    (message,) = parse("user: hi")
    assert memo(message) is message
    assert memo(message) is message
    del message
    gc.collect()
    assert len(memo) == 0
