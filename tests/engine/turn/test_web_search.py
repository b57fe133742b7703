"""web_search: a call of ours, judged first, that has the provider search in a request of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.engine import Dialect, rig
from tests.support.frontends import DENY
from tests.support.provider import Reply, call, say
from tests.support.provider_script import Search, Text, Tokens

from pilotfish.engine.frontend import Question

SEARCHING: tuple[Dialect, ...] = ("responses", "anthropic", "google")
NATIVE = {"responses": '"type": "web_search"', "anthropic": "web_search_2", "google": "googleSearch"}
PAGES = (("https://docs.example/a", "The manual"), ("https://blog.example/b", "A post"))
ASKS = call("web_search", query="newest frobnicate release")
FOUND = Reply(
    parts=(Search("frobnicate release", PAGES), Text("Version 3 is the newest.")), usage=Tokens(input=40, output=9)
)


def searched(question: Question) -> str:
    return f"{question.call.title} · {question.reason}"


@pytest.mark.parametrize("dialect", SEARCHING)
async def test_a_search_is_asked_about_and_made_with_a_request_of_its_own(tmp_path: Path, dialect: Dialect) -> None:
    async with rig(tmp_path, ASKS, FOUND, say("It is 3."), dialect=dialect) as turn:
        outcome = await turn.prompt("a secret plan: which version?")
        first, search, last = turn.provider.requests
        assert [searched(question) for question in turn.frontend.asked] == [
            "Search the web: newest frobnicate release · it would send these words to a web search"
        ]
        assert NATIVE[dialect] in json.dumps(search.body["tools"])
        assert len(search.body["tools"]) == 1
        assert not any(NATIVE[dialect] in json.dumps(request.body["tools"]) for request in (first, last))
        assert "newest frobnicate release" in json.dumps(search.body)
        assert "secret plan" not in json.dumps(search.body)
        sent = json.dumps(last.body)
        assert "Version 3 is the newest." in sent
        assert all(url in sent for url, _ in PAGES)
        assert "<untrusted-" in sent
        assert outcome.usage.requests == 3
        assert outcome.usage.output_tokens >= 9
        turn.check_laws()


async def test_a_denied_search_sends_nothing(tmp_path: Path) -> None:
    async with rig(tmp_path, ASKS, say("ok"), dialect="responses", choose=lambda _: DENY) as turn:
        await turn.prompt("go")
        assert len(turn.provider.requests) == 2
        assert turn.statuses().popitem()[1][-1] == "denied"


async def test_what_a_search_found_taints_the_turn_and_the_next_search_asks_again(tmp_path: Path) -> None:
    replies = (ASKS, FOUND, call("web_search", query="more"), FOUND, say("ok"))
    async with rig(tmp_path, *replies, dialect="anthropic", mode="auto") as turn:
        await turn.prompt("go")
        assert [question.reason for question in turn.frontend.asked] == [
            "it could send data out in the words of a search, and this turn has read the results of a web search"
        ]


@pytest.mark.parametrize(
    ("dialect", "network", "offered"),
    [("chat", True, False), ("responses", True, True), ("responses", False, False), ("anthropic", True, True)],
)
async def test_it_is_offered_where_the_provider_searches(
    tmp_path: Path, dialect: Dialect, network: bool, offered: bool
) -> None:
    async with rig(tmp_path, say("ok"), dialect=dialect, network=network) as turn:
        await turn.prompt("go")
        assert ("web_search" in turn.provider.requests[0].tools) == offered


async def test_a_search_that_the_provider_refuses_is_an_error_of_the_call(tmp_path: Path) -> None:
    refused = Reply(status=400, message="web_search is not enabled for this organization")
    async with rig(tmp_path, ASKS, refused, say("Then without."), dialect="anthropic") as turn:
        outcome = await turn.prompt("go")
        assert outcome.stop_reason == "end_turn"
        assert "the search failed" in json.dumps(turn.provider.requests[-1].body)
        assert turn.statuses().popitem()[1][-1] == "failed"


async def test_a_search_counts_towards_the_budget(tmp_path: Path) -> None:
    dear = Reply(parts=ASKS.parts, usage=Tokens(input=900, output=200))
    async with rig(tmp_path, dear, FOUND, say("ok"), dialect="responses", budget={"tokens": 1000}) as turn:
        outcome = await turn.prompt("go")
        assert outcome.stop_reason == "budget"
        assert len(turn.provider.requests) == 1
