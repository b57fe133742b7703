from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from pilotfish.engine.turn.call_order import Order

PATHS = st.one_of(st.none(), st.frozensets(st.sampled_from("abc"), min_size=1))


async def test_writes_to_one_file_go_in_order_and_others_pass() -> None:
    order, log = Order(), list[str]()
    gates = {name: asyncio.Event() for name in ("first", "second", "other")}

    async def write(name: str, path: str) -> None:
        ticket = order.enter(frozenset({path}))
        async with order.turn(ticket):
            await gates[name].wait()
            log.append(name)

    tasks = [asyncio.create_task(write(*call)) for call in (("first", "a"), ("second", "a"), ("other", "b"))]
    await asyncio.sleep(0)
    gates["second"].set()
    gates["other"].set()
    await asyncio.wait((tasks[2],))
    assert log == ["other"]
    gates["first"].set()
    await asyncio.gather(*tasks)
    assert log == ["other", "first", "second"]


async def test_one_that_gives_up_lets_the_others_pass() -> None:
    order = Order()
    first, second = order.enter(None), order.enter(frozenset({"a"}))
    order.leave(first)
    async with asyncio.timeout(1), order.turn(second):
        pass


@given(st.lists(PATHS, max_size=12), st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_calls_that_may_touch_the_same_things_never_overlap_or_overtake(
    calls: list[frozenset[str] | None], random: object
) -> None:
    async def play() -> None:
        order, running, finished = Order(), set[int](), list[int]()

        def clash(one: int, two: int) -> bool:
            left, right = calls[one], calls[two]
            return left is None or right is None or bool(left & right)

        async def call(index: int) -> None:
            ticket = order.enter(calls[index])
            await asyncio.sleep(0)
            async with order.turn(ticket):
                assert not [other for other in running if clash(index, other)]
                assert all(other in finished for other in range(index) if clash(index, other))
                running.add(index)
                for _ in range((index * 7) % 5):
                    await asyncio.sleep(0)
                running.remove(index)
                finished.append(index)

        await asyncio.gather(*(call(index) for index in range(len(calls))))
        assert sorted(finished) == list(range(len(calls)))

    asyncio.run(play())
