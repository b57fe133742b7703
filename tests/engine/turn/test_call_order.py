from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tries import tries

from pilotfish.engine.turn.calls.order import Order, QuestionOrder

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
@settings(max_examples=tries(80), deadline=None)
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


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(("asks", "allowed", "fails"))), max_size=10))
@settings(max_examples=tries(80), deadline=None)
def test_the_user_is_asked_in_the_order_of_the_calls(calls: list[tuple[int, str]]) -> None:
    async def play() -> list[int]:
        order, asked, answers = QuestionOrder(), list[int](), asyncio.Event()

        async def call(index: int, steps: int, ends: str) -> None:
            order.enter(str(index))
            try:
                for _ in range(steps):  # facts and previews take one call longer than another
                    await asyncio.sleep(0)
                if ends == "fails":
                    return
                if ends == "asks":
                    await order.turn(str(index))
                    asked.append(index)
                    await answers.wait()
                    await order.turn(str(index))  # asks again: its documents have changed
            finally:
                order.leave(str(index))

        running = asyncio.gather(*(call(index, *given) for index, given in enumerate(calls)))
        for _ in range(100):
            await asyncio.sleep(0)
        shown = list(asked)  # every question is open at once: none waits for the answer to another
        answers.set()
        await running
        return shown

    assert asyncio.run(play()) == [index for index, (_, ends) in enumerate(calls) if ends == "asks"]
