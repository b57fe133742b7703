"""Code actions: what is offered where, and with what context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest
from lsprotocol import types

from pilotfish.errors import BadRequest
from pilotfish.lsp.client import read_client
from pilotfish.lsp.connection.protocol import make_converter
from pilotfish.lsp.editor.actions import Actions
from pilotfish.lsp.editor.choices import Choices
from pilotfish.lsp.editor.documents import Documents
from pilotfish.protocol import wire

CONVERTER = make_converter()
URI = "file:///w/a.py"
TEXT = "".join(f"line {number}\n" for number in range(40))
SPOT = {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 1}}
PROBLEM: dict[str, Any] = {
    "range": {"start": {"line": 20, "character": 0}, "end": {"line": 20, "character": 4}},
    "message": "it is wrong",
    "severity": 1,
    "code": "E1",
    "source": "lint",
    "relatedInformation": [{"location": {"uri": URI, "range": SPOT}, "message": "see here"}],
}


class NoQuestions:
    def open(self) -> tuple[()]:
        return ()


class Server:
    """Code actions as JSON."""

    def __init__(self, actions: Actions) -> None:
        self._actions = actions

    async def offer(self, params: Mapping[str, Any]) -> list[dict[str, Any]]:
        return CONVERTER.unstructure(
            await self._actions.code_actions(CONVERTER.structure(params, types.CodeActionParams))
        )

    async def resolve(self, action: Mapping[str, Any]) -> dict[str, Any]:
        return CONVERTER.unstructure(await self._actions.resolve(CONVERTER.structure(action, types.CodeAction)))


def server(*, ours: bool = True, resolves: bool = False, text: str = TEXT, uri: str = URI) -> Server:
    capabilities: dict[str, Any] = {}
    if resolves:
        capabilities = {"textDocument": {"codeAction": {"resolveSupport": {"properties": ["command"]}}}}
    params: dict[str, Any] = {"capabilities": capabilities}
    if ours:
        params["initializationOptions"] = {"pilotfish": {}}
    documents = Documents("utf-16")
    documents.put_text_document(types.TextDocumentItem(uri, "python", 1, text))
    questions: Any = NoQuestions()
    return Server(Actions(read_client(params, "utf-16"), documents, questions, Choices(cast("Any", None)), CONVERTER))


def asked(start: tuple[int, int], end: tuple[int, int], uri: str = URI, **context: Any) -> dict[str, Any]:
    places = [{"line": line, "character": character} for line, character in (start, end)]
    return {
        "textDocument": {"uri": uri},
        "range": {"start": places[0], "end": places[1]},
        "context": {"diagnostics": [], **context},
    }


async def test_a_problem_can_be_fixed_with_everything_that_is_known_of_it():
    (fix,) = await server().offer(asked((20, 1), (20, 1), diagnostics=[PROBLEM]))
    assert (fix["title"], fix["kind"], fix["isPreferred"]) == ("Fix with Pilotfish", "quickfix", False)
    assert fix["diagnostics"] == [PROBLEM]
    assert fix["command"]["command"] == "pilotfish.openChat"
    draft = wire.ChatDraft.model_validate(fix["command"]["arguments"][0])
    assert draft.send
    words, problem, around = draft.prompt
    assert words == wire.TextBlock(text="Fix this problem.")
    assert isinstance(problem, wire.DiagnosticBlock)
    assert problem.diagnostic.model_dump(by_alias=True, exclude_none=True) == PROBLEM
    assert isinstance(around, wire.ResourceBlock)
    assert around.range is not None
    assert (around.uri, around.range.start.line, around.range.end.line, around.text) == (URI, 10, 31, None)


@pytest.mark.parametrize(("text", "end"), [("{\n  3\n}\n", (3, 0)), ("{\n  3\n}", (2, 1))])
async def test_what_is_around_a_problem_ends_with_the_document(text: str, end: tuple[int, int]):
    (fix,) = await server(text=text).offer(asked((1, 2), (1, 2), diagnostics=[PROBLEM]))
    around = wire.ChatDraft.model_validate(fix["command"]["arguments"][0]).prompt[-1]
    assert isinstance(around, wire.ResourceBlock)
    assert around.range is not None
    assert (around.range.start.line, around.range.end.line, around.range.end.character) == (0, *end)


async def test_all_problems_of_a_range_are_fixed_together():
    (fix,) = await server().offer(asked((20, 1), (20, 1), diagnostics=[PROBLEM, PROBLEM, PROBLEM]))
    assert fix["title"] == "Fix 3 problems with Pilotfish"
    assert [block["type"] for block in fix["command"]["arguments"][0]["prompt"]] == [
        "text",
        "diagnostic",
        "diagnostic",
        "diagnostic",
        "resource",
    ]


async def test_a_selection_can_be_explained_refactored_tested_documented_and_asked_about():
    found = await server().offer(asked((1, 0), (2, 3)))
    assert [(action["title"], action["kind"]) for action in found] == [
        ("Explain with Pilotfish", ""),
        ("Refactor with Pilotfish…", "refactor.rewrite"),
        ("Add tests with Pilotfish", ""),
        ("Document with Pilotfish", "refactor.rewrite"),
        ("Ask Pilotfish about the selection…", ""),
    ]
    drafts = [wire.ChatDraft.model_validate(action["command"]["arguments"][0]) for action in found]
    assert [draft.send for draft in drafts] == [True, False, True, True, False]
    assert all(draft.new_session for draft in drafts)
    assert all(isinstance(draft.prompt[1], wire.ResourceBlock) for draft in drafts)


async def test_a_plain_client_runs_the_turn_itself():
    found = await server(ours=False).offer(asked((1, 0), (1, 6)))
    assert {action["command"]["command"] for action in found} == {"pilotfish.prompt"}
    shared = [action["title"] for action in found if action["command"]["arguments"][0]["own"] is False]
    assert shared == ["Continue the conversation with what the selection says"]
    says = next(action for action in found if "selection says" in action["title"])
    assert says["command"]["arguments"][0]["prompt"][0] == {"type": "text", "text": "line 1"}
    assert not any(action["title"].endswith("…") for action in found)


async def test_nothing_is_offered_for_nothing():
    assert await server().offer(asked((1, 0), (1, 0))) == []


@pytest.mark.parametrize(
    ("only", "titles"),
    [
        (["quickfix"], ["Fix with Pilotfish"]),
        (["refactor"], ["Refactor with Pilotfish…", "Document with Pilotfish"]),
        (["refactor.rewrite"], ["Refactor with Pilotfish…", "Document with Pilotfish"]),
        (["source.organizeImports"], []),
        (["refactor.rewrite.deep"], []),
    ],
)
async def test_a_client_that_wants_some_kinds_only_gets_those(only: list[str], titles: list[str]):
    found = await server().offer(asked((1, 0), (2, 0), diagnostics=[PROBLEM], only=only))
    assert [action["title"] for action in found] == titles


async def test_where_the_client_can_the_command_comes_when_it_is_needed():
    resolving = server(resolves=True)
    (fix, *_) = await resolving.offer(asked((20, 1), (20, 1), diagnostics=[PROBLEM]))
    assert "command" not in fix
    resolved = await resolving.resolve(fix)
    assert resolved["command"]["arguments"] == (await _without_resolve())["command"]["arguments"]
    with pytest.raises(BadRequest):
        await resolving.resolve({"title": "x", "data": {"do": "nothing", **_place()}})


def _place() -> dict[str, Any]:
    return {"uri": URI, "range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}}


async def _without_resolve() -> dict[str, Any]:
    return (await server().offer(asked((20, 1), (20, 1), diagnostics=[PROBLEM])))[0]


async def test_what_is_in_no_file_is_sent_along():
    uri = "untitled:Untitled-1"
    found = await server(uri=uri, text="typed 😀 here\n").offer(asked((0, 6), (0, 8), uri=uri))
    assert found[0]["command"]["arguments"][0]["prompt"][1]["text"] == "😀"


@pytest.mark.parametrize("data", [{"do": "explain"}, {"do": "explain", "range": {"start": 3}}, {"do": 5}, [], "x"])
async def test_an_action_that_is_none_of_ours_is_refused(data: Any):
    with pytest.raises(BadRequest) as caught:
        await server(resolves=True).resolve({"title": "x", "data": data})
    assert caught.value.field == "data"


async def test_an_action_with_nothing_to_resolve_comes_back_as_it_is():
    assert await server().resolve({"title": "x"}) == {"title": "x"}
