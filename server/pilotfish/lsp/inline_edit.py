"""Inline edits: an instruction for a place in a file, run as an ordinary turn in a small session of its own.

What the turn changes are pending hunks of that session, which the review keeps or undoes. A follow-up goes to the same
session, so that the model refines what it wrote. Nobody is asked about edits of that one file, because the user has
just asked for them; everything else is judged as in any session.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from pilotfish.engine.engine import Engine
from pilotfish.errors import BadRequest, UnknownSession
from pilotfish.lsp.editor.attachments import resource, wider
from pilotfish.lsp.editor.documents import Documents
from pilotfish.protocol import wire
from pilotfish.text.uris import path_of

AROUND = 100
"""lines above and below the place that are sent along"""
TITLE_CHARS = 60

# The place comes first: an instruction that begins with a slash is no command.
_EDIT = (
    "At {place} of {name}: {instruction}\n\nMake the edit there at once with an editing tool, change nothing else, and "
    "answer with one short sentence. If this is a question, answer it and edit nothing."
)
_REFINE = "Change your last edit of {name} like this and no more: {instruction}\n\nAnswer with one short sentence."
_RETRY = "I have undone your edit of {name}, because it is not what I want. Do it again in another way: {instruction}"


@dataclass(frozen=True, slots=True)
class InlineEdit:
    """An inline edit that is about to run."""

    session_id: str
    path: Path
    instruction: str
    prompt: tuple[wire.ContentBlock, ...] = ()


class InlineEdits:
    """The inline edits of one connection, by session."""

    def __init__(self, engine: Engine, documents: Documents) -> None:
        self._engine = engine
        self._documents = documents
        self._edits: dict[str, InlineEdit] = {}

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._edits

    def folder(self, path: Path) -> str | None:
        """The workspace folder that a file is in."""
        return next((str(root) for root in self._engine.roots if path.is_relative_to(root)), None)

    async def begin(self, params: wire.InlineEditParams) -> InlineEdit:
        """The prompt of a new edit, in a session of its own, or of a follow-up."""
        path = path_of(params.uri)
        if path is None:
            raise BadRequest("uri: only a file can be edited; save the document first", field="uri")
        if not params.prompt.strip():
            raise BadRequest("prompt: say what to change", field="prompt")
        text, name = params.prompt.strip(), path.name
        if params.session_id is not None:
            edit = replace(self._find(params.session_id), instruction=text)
            return self._with_prompt(edit, _REFINE.format(instruction=text, name=name), params)
        folder = self.folder(path)
        mode = self._engine.settings.mode
        session = await self._engine.new(folder, f"Edit: {text[:TITLE_CHARS]}", None, "ask" if mode == "plan" else mode)
        await self._engine.allow_edits(session.id, path)
        words = _EDIT.format(instruction=text, place=_place(params.range), name=name)
        return self._with_prompt(InlineEdit(session.id, path, text), words, params)

    async def again(self, session_id: str) -> InlineEdit:
        """Undo the pending changes of an edit; the prompt to run it again."""
        edit = self._find(session_id)
        await self._engine.decide_changes(session_id, "undo", edit.path)
        words = _RETRY.format(name=edit.path.name, instruction=edit.instruction)
        return replace(edit, prompt=(wire.TextBlock(text=words), wire.ContextBlock()))

    async def result(self, edit: InlineEdit, outcome: wire.PromptResult) -> wire.InlineEditResult:
        """The outcome of the turn, with the pending changes of the edit."""
        pending = await self._engine.pending_changes(edit.session_id, edit.path)
        hunk_ids = tuple(hunk.id for _, file in pending for hunk in file.hunks)
        fields = {**dict(outcome), "session_id": edit.session_id, "hunk_ids": hunk_ids}
        return wire.InlineEditResult.model_validate(fields)

    def _find(self, session_id: str) -> InlineEdit:
        try:
            return self._edits[session_id]
        except KeyError:
            raise UnknownSession("This inline edit does not belong to this window. Start a new one.") from None

    def _with_prompt(self, edit: InlineEdit, words: str, params: wire.InlineEditParams) -> InlineEdit:
        self._edits[edit.session_id] = edit
        document, where = self._documents.get(params.uri), params.range
        selection = where if where.start != where.end else None
        active = wire.ActiveDocument(uri=params.uri, cursor=where.start, selection=selection)
        around = resource(params.uri, wider(where, AROUND, document), document)
        return replace(edit, prompt=(wire.TextBlock(text=words), around, wire.ContextBlock(active=active)))


def _place(where: wire.Range) -> str:
    first, last = where.start.line + 1, where.end.line + 1
    if where.start == where.end:
        return f"line {first}"
    if where.end.character == 0 and last > first:
        last -= 1
    return f"line {first}" if first == last else f"lines {first} to {last}"
