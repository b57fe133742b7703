"""`kill -9` of the real server at random moments of a turn, again and again, on one store.

After each: what was told is there, the session loads, nothing ran twice, the next prompt succeeds.
The seed is printed; `PILOTFISH_SEED` repeats it, `PILOTFISH_CYCLES` sets how often.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

from tests.support.client import Client, connect
from tests.support.provider import Provider, serve
from tests.support.provider_http import Request
from tests.support.provider_script import Call, Reply, Text

LONG = bool(os.environ.get("PILOTFISH_LONG"))
CYCLES = int(os.environ.get("PILOTFISH_CYCLES", "1000" if LONG else "4"))


def replies(dice: random.Random, marks: list[str]) -> Reply:
    """What a model might do next: talk, read, run a command that leaves a mark, write a file."""
    match dice.randrange(4):
        case 0:
            return Reply(parts=tuple(Text(f"word{number} ") for number in range(dice.randrange(1, 60))), delay=0.002)
        case 1:
            return Reply(
                parts=(Text("reading "), Call("read_file", {"path": "a.txt"}), Call("list_dir", {"path": "."}))
            )
        case 2:
            mark = f"mark{len(marks)}"
            marks.append(mark)
            return Reply(parts=(Call("bash", {"command": f"echo x >> {mark}; sleep 0.05"}),))
        case _:
            return Reply(parts=(Call("write_file", {"path": f"made{dice.randrange(3)}.txt", "content": "made\n"}),))


async def test_after_any_kill_nothing_told_is_lost_and_the_next_prompt_works(tmp_path: Path) -> None:
    seed = int(os.environ.get("PILOTFISH_SEED", str(random.randrange(1 << 30))))
    print(f"seed {seed}")  # noqa: T201 -- a failure must be repeatable
    dice, marks = random.Random(seed), list[str]()
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n", "utf-8")
    finishing = False

    def next_reply(_: Request) -> Reply:
        return Reply(parts=(Text("fine"),)) if finishing else replies(dice, marks)

    async with serve(otherwise=next_reply) as provider:
        settings = {"model": "openai-chat:scripted", "baseUrl": provider.openai_url, "mode": "auto", "maxIterations": 6}
        session, seen = "", 0
        for cycle in range(CYCLES):
            finishing = False
            async with connect(folder, home=tmp_path / "home", settings=settings, OPENAI_API_KEY="key") as client:
                session = session or await client.new_session()
                if cycle:
                    await still_there(client, session, seen)
                client.begin(session, f"prompt {cycle}").add_done_callback(ignore)
                await asyncio.sleep(dice.random() ** 2 * 1.5)
                client.process.kill()
                await asyncio.wait_for(client.process.wait(), 30.0)
                await asyncio.sleep(0.05)
                seen = max([seen, *(told.seq for told in client.updates if told.session_id == session)])
        finishing = True
        async with connect(folder, home=tmp_path / "home", settings=settings, OPENAI_API_KEY="key") as client:
            await still_there(client, session, seen)
            answer = await client.prompt(session, "and now?")
            assert answer.stop_reason == "end_turn"
        for mark in marks:
            lines = (folder / mark).read_text("utf-8") if (folder / mark).exists() else ""
            assert lines in ("", "x\n"), f"{mark} ran {len(lines) // 2} times"
        check_requests(provider)


async def still_there(client: Client, session: str, seen: int) -> None:
    loaded = await client.load(session, limit=500)
    assert loaded.last_seq >= seen
    open_calls = [
        item.call.id
        for item in loaded.items
        if item.kind == "tool_call" and item.call.status not in ("completed", "failed", "denied", "cancelled")
    ]
    assert open_calls == []


def check_requests(provider: Provider) -> None:
    """The strict provider refused no history."""
    assert [request.refused for request in provider.requests if request.refused] == []


def ignore(task: asyncio.Task[object]) -> None:
    """The prompt dies with its server."""
    if not task.cancelled():
        task.exception()
