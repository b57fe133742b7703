"""Code actions and code lenses, computed from memory in a few milliseconds, without the engine.

A client with a chat opens it with the prompt and its context attached; a plain client runs the turn. Each prompt starts
a session of its own, so that it does not carry an unrelated conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cattrs import Converter
from lsprotocol import types

from pilotfish.errors import BadRequest
from pilotfish.lsp import command_names
from pilotfish.lsp.client import Client
from pilotfish.lsp.connection.json_values import as_object, as_objects
from pilotfish.lsp.connection.params import read
from pilotfish.lsp.editor.ai_comments import ai_comments, prompt_of
from pilotfish.lsp.editor.approvals import Approvals
from pilotfish.lsp.editor.attachments import resource, selected, wider
from pilotfish.lsp.editor.choices import Choices
from pilotfish.lsp.editor.documents import Document, Documents, LastPlace
from pilotfish.protocol import wire
from pilotfish.text.positions import TextPosition

AROUND = 10
"""lines above and below a problem that are sent along"""


@dataclass(frozen=True, slots=True)
class _Offer:
    """Something that can be done with a selection."""

    title: str
    prompt: str
    kind: types.CodeActionKind
    send: bool
    """whether the prompt is complete; otherwise the user completes it first"""
    own: bool = True
    """whether a plain client starts a session of its own for it"""


_REWRITE, _ANY = types.CodeActionKind.RefactorRewrite, types.CodeActionKind.Empty
_FIX = "fix"
_OFFERS = {
    "explain": _Offer("Explain with Pilotfish", "Explain this code.", _ANY, send=True),
    "refactor": _Offer("Refactor with Pilotfish…", "Refactor this code: ", _REWRITE, send=False),
    "tests": _Offer("Add tests with Pilotfish", "Write tests for this code, and run them.", _ANY, send=True),
    "document": _Offer("Document with Pilotfish", "Document this code where it stands.", _REWRITE, send=True),
    "ask": _Offer("Ask Pilotfish about the selection…", "", _ANY, send=False),
}
_TYPED = ("ask", "continue")
"""whose prompt a plain client has in the selection"""
_PLAIN_OFFERS = {
    **_OFFERS,
    # No place to type in a plain client: what cannot be asked for is decided, or stands in the selection itself.
    "refactor": _Offer(
        "Refactor with Pilotfish", "Refactor this code so that it is easier to read.", _REWRITE, send=True
    ),
    "ask": _Offer("Do what the selection says, with Pilotfish", "", _ANY, send=True),
    "continue": _Offer("Continue the conversation with what the selection says", "", _ANY, send=True, own=False),
}


class Actions:
    """Answers `textDocument/codeAction`, `codeAction/resolve` and `textDocument/codeLens`."""

    def __init__(
        self, client: Client, documents: Documents, approvals: Approvals, choices: Choices, converter: Converter
    ) -> None:
        self._client = client
        self._documents = documents
        self._approvals = approvals
        self._choices = choices
        self._json = converter.unstructure

    async def code_actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        start, end = (TextPosition(at.line, at.character) for at in (params.range.start, params.range.end))
        self._documents.last_place = LastPlace(params.text_document.uri, start, end)
        only, place = params.context.only, {"uri": params.text_document.uri, "range": self._json(params.range)}
        found = self._choices.code_actions() if _wanted(types.CodeActionKind.QuickFix, only) else []
        if params.context.diagnostics and _wanted(types.CodeActionKind.QuickFix, only):
            count = len(params.context.diagnostics)
            title = "Fix with Pilotfish" if count == 1 else f"Fix {count} problems with Pilotfish"
            data = {"do": _FIX, **place, "diagnostics": self._json(params.context.diagnostics)}
            action = types.CodeAction(
                title=title,
                kind=types.CodeActionKind.QuickFix,
                diagnostics=params.context.diagnostics,
                # A model's fix must not be applied without review.
                is_preferred=False,
                data=data,
            )
            found.append(action)
        if self._client.ours and self._client.hello.client.inline_edit and _wanted(_REWRITE, only):
            command = types.Command("Edit with Pilotfish…", command_names.EDIT, arguments=[place])
            found.append(types.CodeAction(title=command.title, kind=_REWRITE, command=command))
        if params.range.start != params.range.end:
            for name, offer in self._offers().items():
                if _wanted(offer.kind, only):
                    found.append(types.CodeAction(title=offer.title, kind=offer.kind, data={"do": name, **place}))
        # Helix resolves an action and then runs the command of the unresolved one.
        lazily = self._client.ours and self._client.resolves_commands
        return found if lazily else [self._with_command(action) for action in found]

    async def resolve(self, action: types.CodeAction) -> types.CodeAction:
        if action.data is None:
            return action  # already resolved
        try:
            return self._with_command(action)
        except BadRequest as error:
            raise BadRequest(f"data: {error}", field="data") from None

    async def lenses(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        document = self._documents.get(params.text_document.uri)
        if document is None:
            return []
        found = self._comment_lenses(document)
        if document.path is None:
            return found
        waiting = self._approvals.open()
        for number, question in enumerate(waiting, 1):
            for file in question.preview.files:
                if file.path != document.path:
                    continue
                row = min(_first_change(file.before or "", file.after or ""), len(document.text.starts) - 1)
                where = types.Range(types.Position(row, 0), types.Position(row, 0))
                count = f" {number} of {len(waiting)}" if len(waiting) > 1 else ""
                lenses: list[tuple[str, str, dict[str, str]]] = [
                    ("Allow edit", command_names.APPROVE, {"optionId": "allow_once"}),
                    ("Deny", command_names.APPROVE, {"optionId": "reject"}),
                    (f"Diff{count}", command_names.PREVIEW, {}),
                ]
                for title, command, extra in lenses if self._approvals.allowed_in_file(question) else lenses[1:]:
                    argument = {"approvalId": question.approval_id, **extra}
                    found.append(types.CodeLens(where, types.Command(title, command, arguments=[argument])))
        return found

    def _comment_lenses(self, document: Document) -> list[types.CodeLens]:
        """A lens on each comment for the agent. With several in the open documents, all can be sent at once."""
        here = ai_comments(document)
        if not here:
            return []
        others = [one for one in self._documents.all() if one.uri != document.uri]
        everywhere = [*here, *(comment for one in others for comment in ai_comments(one))]
        found: list[types.CodeLens] = []
        for comment in here:
            where = types.Range(types.Position(comment.line, 0), types.Position(comment.line, 0))
            found.append(types.CodeLens(where, self._command("Ask Pilotfish", prompt_of([comment]), send=True)))
            if len(everywhere) > 1:
                title = f"Ask about all {len(everywhere)} AI comments"
                found.append(types.CodeLens(where, self._command(title, prompt_of(everywhere), send=True)))
        return found

    def _offers(self) -> dict[str, _Offer]:
        return _OFFERS if self._client.ours else _PLAIN_OFFERS

    def _with_command(self, action: types.CodeAction) -> types.CodeAction:
        if action.command is not None:
            return action
        data = as_object(action.data) or {}
        prompt, send = self._prompt(data)
        offer = self._offers().get(str(data.get("do")))
        action.command = self._command(action.title, prompt, send=send, own=offer is None or offer.own)
        action.data = None
        return action

    def _command(
        self, title: str, prompt: Sequence[wire.ContentBlock], *, send: bool, own: bool = True
    ) -> types.Command:
        """The command that sends a prompt, or opens the chat with it."""
        blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in prompt]
        argument: dict[str, Any] = {"prompt": blocks, "own": own}
        if self._client.ours:
            argument = {"prompt": blocks, "send": send, "newSession": True}
        name = command_names.OPEN_CHAT if self._client.ours else command_names.PROMPT
        return types.Command(title, name, arguments=[argument])

    def _prompt(self, data: dict[str, Any]) -> tuple[list[wire.ContentBlock], bool]:
        """The prompt of an action, with its context, and whether to send it at once."""
        uri, do = str(data.get("uri")), str(data.get("do"))
        where = read(wire.Range, data.get("range"))
        document = self._documents.get(uri)
        if do == _FIX:
            problems = [
                wire.DiagnosticBlock(uri=uri, diagnostic=read(wire.Diagnostic, problem))
                for problem in as_objects(data.get("diagnostics"))
            ]
            words = "Fix this problem." if len(problems) == 1 else f"Fix these {len(problems)} problems."
            return [
                wire.TextBlock(text=words),
                *problems,
                resource(uri, wider(where, AROUND, document), document),
            ], True
        offer = self._offers().get(do)
        if offer is None:
            raise BadRequest(f"there is no action {do!r}", field="data")
        about = resource(uri, where, document)
        if not self._client.ours and do in _TYPED:
            words = selected(where, document) if document is not None else ""
            return [wire.TextBlock(text=words or "Explain this."), about], True
        return [wire.TextBlock(text=offer.prompt), about], offer.send


def _wanted(kind: types.CodeActionKind, only: Sequence[types.CodeActionKind | str] | None) -> bool:
    """Whether a client that wants these kinds only wants this one."""
    return not only or any(
        asked in ("", kind.value) or kind.value.startswith(f"{asked}.") for asked in map(_word, only)
    )


def _word(kind: types.CodeActionKind | str) -> str:
    return kind.value if isinstance(kind, types.CodeActionKind) else kind


def _first_change(before: str, after: str) -> int:
    """The first line that differs."""
    for row, (old, new) in enumerate(zip(before.split("\n"), after.split("\n"), strict=False)):
        if old != new:
            return row
    return min(before.count("\n"), after.count("\n"))
