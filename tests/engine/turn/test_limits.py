"""The limits of a turn: budgets, repeated calls, the context window, the size of the first request."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from tests.support.engine import MODELS, rig
from tests.support.provider import call, calls, fails, say
from tests.support.provider_script import Call, Tokens

from pilotfish.config.settings import Budget
from pilotfish.conversation.records import CompactionRecord
from pilotfish.errors import BadRequest

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 32).decode()


async def test_a_token_budget_ends_the_turn_and_the_next_prompt_works(tmp_path: Path) -> None:
    reply = call("list_dir", path=".")
    async with rig(tmp_path, otherwise=reply, budget={"tokens": 3000}) as turn:
        outcome = await turn.prompt("spend")
        assert outcome.stop_reason == "budget"
        assert outcome.usage.input_tokens + outcome.usage.output_tokens >= 3000
        turn.check_laws()
        turn.provider.otherwise = say("fine")
        turn.engine.set_settings(turn.engine.settings.model_copy(update={"budget": Budget()}))
        assert (await turn.prompt("again")).stop_reason == "end_turn"


async def test_identical_calls_stop_the_turn_without_consent(tmp_path: Path) -> None:
    async with rig(tmp_path, otherwise=call("list_dir", path="."), maxIterations=50) as turn:
        outcome = await turn.prompt("loop")
        assert (outcome.stop_reason, outcome.usage.requests) == ("cancelled", 5)
        assert turn.notices() == ["The turn was stopped: it repeated the same call."]
        turn.check_laws()


async def test_identical_calls_continue_with_consent(tmp_path: Path) -> None:
    async with rig(tmp_path, otherwise=call("list_dir", path="."), maxIterations=7) as turn:
        turn.frontend.user_answer = "Go on"
        assert (await turn.prompt("loop")).stop_reason == "max_iterations"


async def test_a_full_context_is_summarised_and_the_turn_goes_on(tmp_path: Path) -> None:
    replies = (*(say(f"answer {number}") for number in range(6)), fails("context"), say("SUMMARY"), say("went on"))
    async with rig(tmp_path, *replies) as turn:
        for number in range(6):
            await turn.prompt(f"question {number}")
        assert (await turn.prompt("the last one")).stop_reason == "end_turn"
        (record,) = [update.record for update in turn.updates if isinstance(update.record, CompactionRecord)]
        assert record.summary == "SUMMARY"
        sent = str(turn.provider.requests[-1].body)
        assert "SUMMARY" in sent
        assert "the last one" in sent
        assert "question 0" not in sent
        turn.check_laws()


async def test_a_context_that_cannot_be_made_smaller_fails_with_a_remedy(tmp_path: Path) -> None:
    async with rig(tmp_path, fails("context"), say("fine")) as turn:
        outcome = await turn.prompt("much too long")
        assert outcome.error is not None
        assert (outcome.stop_reason, outcome.error.kind) == ("failed", "context")
        assert (await turn.prompt("short")).stop_reason == "end_turn"


async def test_a_session_changes_its_provider_and_goes_on(tmp_path: Path) -> None:
    replies = (call("list_dir", path="."), say("first", thoughts=("hm",)), say("second"), say("third"))
    async with rig(tmp_path, *replies, dialect="anthropic") as turn:
        await turn.prompt("one")
        elsewhere = {"model": MODELS["chat"], "base_url": turn.provider.openai_url}
        turn.engine.set_settings(turn.engine.settings.model_copy(update=elsewhere))
        for dialect in ("chat", "responses"):
            await turn.engine.configure(turn.session_id, model=MODELS[dialect])
            assert (await turn.prompt("and now?")).stop_reason == "end_turn"
        turn.engine.set_settings(turn.engine.settings.model_copy(update={"base_url": turn.provider.url}))
        assert [request.path for request in turn.provider.requests[2:]] == ["/v1/chat/completions", "/v1/responses"]


async def test_an_image_goes_to_the_model_and_an_unsupported_one_is_reported(tmp_path: Path) -> None:
    async with rig(tmp_path, say("seen"), say("not seen")) as turn:
        blocks = [{"type": "text", "text": "look"}, {"type": "image", "data": PNG, "mimeType": "image/png"}]
        assert (await turn.engine.prompt(turn.session_id, blocks)).stop_reason == "end_turn"
        assert PNG in str(turn.provider.requests[0].body)
        blocks[1] = {"type": "image", "data": PNG, "mimeType": "image/tiff"}
        await turn.engine.prompt(turn.session_id, blocks)
        assert turn.notices() == ["An image was not attached: image/tiff is not supported."]


async def test_mentions_selections_and_diagnostics_reach_the_model(tmp_path: Path) -> None:
    files = {"src/a.py": "one\ntwo\nthree\n"}
    async with rig(tmp_path, say("ok"), files=files) as turn:
        uri = (turn.root / "src/a.py").as_uri()
        span = {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 3}}
        await turn.engine.prompt(
            turn.session_id,
            [
                {"type": "text", "text": "compare with @src/a.py#3"},
                {"type": "resource", "uri": uri, "range": span},
                {"type": "diagnostic", "uri": uri, "diagnostic": {"range": span, "message": "odd", "source": "lint"}},
            ],
        )
        content = turn.provider.requests[0].body["messages"][-1]["content"]
        sent = content if isinstance(content, str) else "\n".join(part["text"] for part in content)
        assert '<attached path="src/a.py" lines="2-2">\ntwo\n</attached>' in sent
        assert '<attached path="src/a.py" lines="3-3">\nthree\n</attached>' in sent
        assert "src/a.py:2: error [lint]: odd" in sent


@pytest.mark.parametrize("attached", ["selection", "mention", "problem", "cut"])
async def test_a_partly_attached_file_may_not_be_overwritten_as_a_whole(tmp_path: Path, attached: str) -> None:
    text = "".join(f"line {number}\n" for number in range(1, 10_000))
    write = call("write_file", path="a.txt", content="short\n")
    async with rig(tmp_path, write, say("ok"), files={"a.txt": text}, mode="edit") as turn:
        uri = (turn.root / "a.txt").as_uri()
        span = {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 4}}
        blocks: dict[str, dict[str, Any]] = {
            "selection": {"type": "resource", "uri": uri, "range": span},
            "mention": {"type": "text", "text": "see @a.txt#2"},
            "problem": {"type": "diagnostic", "uri": uri, "diagnostic": {"range": span, "message": "odd"}},
            "cut": {"type": "resource", "uri": uri},
        }
        await turn.engine.prompt(turn.session_id, [{"type": "text", "text": "shorten it"}, blocks[attached]])
        assert [line[-1] for line in turn.statuses().values()] == ["failed"]
        assert (turn.root / "a.txt").read_text() == text


async def test_a_selection_within_a_line_is_named(tmp_path: Path) -> None:
    async with rig(tmp_path, say("ok"), files={"a.py": "x = naïve(日本) + 1\n"}) as turn:
        span = {"start": {"line": 0, "character": 10}, "end": {"line": 0, "character": 12}}
        block = {"type": "resource", "uri": (turn.root / "a.py").as_uri(), "range": span}
        await turn.engine.prompt(turn.session_id, [{"type": "text", "text": "what is it?"}, block])
        sent = turn.provider.requests[0].body["messages"][-1]["content"].split("\n\n", 2)[-1]
        assert sent == '<attached path="a.py" lines="1-1" selected="日本">\nx = naïve(日本) + 1\n</attached>'


async def test_an_empty_prompt_is_a_clear_error(tmp_path: Path) -> None:
    async with rig(tmp_path, say("fine")) as turn:
        with pytest.raises(BadRequest, match="must not be empty"):
            await turn.prompt("  ")
        assert (await turn.prompt("words")).stop_reason == "end_turn"


async def test_rules_of_a_trusted_folder_are_sent_and_of_an_untrusted_one_are_not(tmp_path: Path) -> None:
    files = {"AGENTS.md": "Always use tabs."}
    for trusted in (True, False):
        async with rig(tmp_path, say("ok"), files=files, trusted=trusted) as turn:
            await turn.prompt("hello")
            assert ("Always use tabs." in str(turn.provider.requests[0].body)) == trusted


async def test_secrets_in_a_result_are_hidden_from_the_model_with_a_notice(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "aB3xK9mQ7vR2tY6wE1zU5nH8jL4pS0dF" * 3
    async with rig(
        tmp_path, call("read_file", path="notes.txt"), say("ok"), files={"notes.txt": f"key: {key}\n"}
    ) as turn:
        await turn.prompt("read")
        assert key not in str(turn.provider.requests[1].body)
        assert len(turn.notices()) == 1
        assert "hidden from the model" in turn.notices()[0]


async def test_a_long_output_is_cut_in_the_middle_and_can_be_read_on(tmp_path: Path) -> None:
    replies = (
        calls(Call("bash", {"command": "seq 1 20000"}, "long")),
        call("read_output", call_id="long", line=10_000, count=2),
        say("ok"),
    )
    async with rig(tmp_path, *replies) as turn:
        await turn.prompt("count")
        first, second = (str(request.body) for request in turn.provider.requests[1:])
        assert 'read_output(call_id=\\"long\\"' in first or 'read_output(call_id="long"' in first
        assert "10000" not in first
        assert "10000\\n10001" in second


async def test_a_context_that_is_nearly_full_is_summarised_before_it_overflows(tmp_path: Path) -> None:
    full = say("answer 5", usage=Tokens(input=900_000, output=10))
    replies = (*(say(f"answer {number}") for number in range(5)), full, say("SUMMARY"), say("went on"))
    async with rig(tmp_path, *replies, contextWindow=1_000_000) as turn:
        for number in range(6):
            await turn.prompt(f"question {number}")
        assert (await turn.prompt("the last one")).stop_reason == "end_turn"
        assert [update.record.summary for update in turn.updates if isinstance(update.record, CompactionRecord)] == [
            "SUMMARY"
        ]
        sent = str(turn.provider.requests[-1].body)
        assert "the last one" in sent
        assert "question 0" not in sent
        turn.check_laws()


async def test_a_summary_that_cannot_be_made_does_not_cost_the_turn(tmp_path: Path) -> None:
    full = say("answer 5", usage=Tokens(input=900_000, output=10))
    replies = (*(say(f"answer {number}") for number in range(5)), full, fails("bad_request"), say("went on"))
    async with rig(tmp_path, *replies, contextWindow=1_000_000) as turn:
        for number in range(6):
            await turn.prompt(f"question {number}")
        assert (await turn.prompt("the last one")).stop_reason == "end_turn"
        assert "question 0" in str(turn.provider.requests[-1].body)


async def test_a_turn_pauses_for_a_client_that_does_not_read(tmp_path: Path) -> None:
    async with rig(tmp_path, call("list_dir", path="."), say("done")) as turn:
        blocked = asyncio.Event()
        turn.frontend.room = blocked.wait  # pyright: ignore[reportAttributeAccessIssue] -- this client is full
        running = asyncio.create_task(turn.prompt("look"))
        for _ in range(100):
            await asyncio.sleep(0.005)
        assert turn.provider.requests == []
        await turn.engine.cancel(turn.session_id)
        assert (await running).stop_reason == "cancelled"
        blocked.set()
        assert (await turn.prompt("again")).stop_reason == "end_turn"
        turn.check_laws()
