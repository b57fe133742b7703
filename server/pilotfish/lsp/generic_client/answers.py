"""Shows how a turn of a generic client ended: as a message, or as a Markdown transcript in an editor."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path

from lsprotocol import types

from pilotfish.engine.engine import Engine
from pilotfish.lsp.client import Client
from pilotfish.lsp.connection.protocol import Connection
from pilotfish.protocol import wire

SHORT_CHARS = 300
SHORT_LINES = 4
ONE_LINE_CHARS = 80
"""that fit in the one line in which some editors show a message"""
PROMPT_IN_VIEW = 15
"""lines between a prompt and its answer that leave both on the screen"""
LAST_PROMPT = "## You"
"""the heading of a prompt in a Markdown transcript"""
ERROR, WARNING, INFO = types.MessageType.Error, types.MessageType.Warning, types.MessageType.Info


class Answers:
    """Messages and transcripts of a generic client."""

    def __init__(self, connection: Connection, client: Client, engine: Engine) -> None:
        self._connection = connection
        self._client = client
        self._engine = engine
        self._transcripts: dict[str, Path] = {}
        """session → the transcript that is shown"""
        self._numbers = itertools.count(2)

    async def show(self, session_id: str, answer: str, unverified: Sequence[str], result: wire.PromptResult) -> None:
        """Show how a turn ended: a short answer as a message, a longer one as a transcript. `unverified` has the
        statements of the answer that no call shows."""
        if result.error is not None:
            self._connection.message(ERROR, f"{result.error.message} {result.error.remedy}".strip())
            return
        if result.stop_reason == "cancelled":
            self._connection.message(INFO, _stopped_words(result.receipt))
            return
        text = (result.reply or answer).strip()
        if result.stop_reason not in ("end_turn", "refusal"):
            self._connection.message(WARNING, end_words(result))
        if unverified:
            self._connection.message(WARNING, "\n".join(unverified))
        if not text:
            return
        if _is_short(text, one_line=self._client.one_line_messages):
            self._connection.message(INFO, text)
            return
        whole = result.reply or await self._engine.export(session_id, "markdown")
        path, shown = await self.show_transcript(session_id, whole, text)
        if not shown:
            chars = ONE_LINE_CHARS if self._client.one_line_messages else SHORT_CHARS
            begin = " ".join(text.split())[:chars] if self._client.one_line_messages else text[:chars]
            self._connection.message(INFO, f"{begin}… The whole answer is in {path}")

    async def open_transcript(self, session_id: str) -> Path:
        """Show the conversation, or say where it can be read if the client cannot show a document."""
        path, shown = await self.show_transcript(session_id, await self._engine.export(session_id, "markdown"))
        if not shown:
            self._connection.message(INFO, f"The conversation is in {path}")
        return path

    async def show_transcript(self, session_id: str, text: str, answer: str = "") -> tuple[Path, bool]:
        """Write a transcript where an editor can open it and only the user can read it, and show its last prompt, or
        the answer if the calls before it would fill the screen.

        Editors do not read a file again that they have open, so a transcript that was shown gets a new name and the old
        file is deleted.
        """
        first = self._engine.transcript_path(session_id)
        old = self._transcripts.get(session_id)
        path = first if old is None else first.with_stem(f"{first.stem}-{next(self._numbers)}")

        def write() -> None:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.touch(mode=0o600)
            path.write_text(text, "utf-8")
            if old is not None:
                old.unlink(missing_ok=True)

        await asyncio.to_thread(write)
        lines = text.split("\n")
        last = max((number for number, line in enumerate(lines) if line.startswith(LAST_PROMPT)), default=0)
        said = text.count("\n", 0, text.rfind(answer)) if answer and answer in text else last
        shown = self._client.show_document and await self._connection.show(
            path, said if said - last > PROMPT_IN_VIEW else last
        )
        if shown:
            self._transcripts[session_id] = path
        return path, shown


def end_words(result: wire.PromptResult) -> str:
    match result.stop_reason:
        case "end_turn":
            return "done"
        case "cancelled":
            return "stopped"
        case "failed":
            return "failed"
        case "refusal":
            return "the model declined"
        case "max_iterations":
            return "Stopped at the limit of steps. Send “continue” to go on."
        case "max_tokens":
            return "The answer was cut off at the model's limit. Send “continue” to go on."
        case "budget":
            return "Stopped at the budget of this turn."


def _is_short(text: str, *, one_line: bool) -> bool:
    """Whether a message shows this text whole."""
    if one_line:
        return len(text) <= ONE_LINE_CHARS and "\n" not in text
    return len(text) <= SHORT_CHARS and text.count("\n") < SHORT_LINES


def _stopped_words(receipt: wire.Receipt | None) -> str:
    if receipt is None:
        return "Stopped."
    edits, ended = len(receipt.changed_files), len(receipt.killed_processes)
    words = [f"{edits} changed file{'' if edits == 1 else 's'} kept" if edits else ""]
    words.append(f"{ended} command{'' if ended == 1 else 's'} ended" if ended else "")
    parts = ", ".join(word for word in words if word)
    return f"Stopped. {parts[0].upper()}{parts[1:]}." if parts else "Stopped."
