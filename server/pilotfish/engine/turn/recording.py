"""What a turn leaves behind: every message of it, in the ledger and in the history that is sent again.

Hides: the translation of the library's messages, how far a run's messages have been looked at, what is sent of them.
Promises: a message is recorded once, as it was said; what was told in pieces and could not be recorded whole is
recorded piece by piece; words that were steered in are told right before their message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart

from pilotfish.config.settings import Settings
from pilotfish.conversation.messages import message_from_json, message_to_json
from pilotfish.conversation.records import (
    Attachment,
    FileChangeRecord,
    MessageRecord,
    NoticeRecord,
    PlanEntry,
    PlanRecord,
)
from pilotfish.engine.model.adapter import know, to_canonical
from pilotfish.engine.prompt import PreparedPrompt, plain_text
from pilotfish.engine.turn.recovery import partial_messages
from pilotfish.engine.turn.response_stream import ResponseStream
from pilotfish.engine.turn.services import Ports
from pilotfish.engine.turn.steering import Steering
from pilotfish.errors import FailureKind
from pilotfish.workspace.files.changes import FileChange


class Recording:
    """The records of one turn, but for its beginning, its states and its end."""

    def __init__(
        self, ports: Ports, turn_id: str, settings: Settings, pieces: ResponseStream, steering: Steering
    ) -> None:
        self.changed_files: dict[str, None] = {}
        self._ports = ports
        self._emit = ports.emit
        self._clock = ports.clock
        self._turn_id = turn_id
        self._pieces = pieces
        self._steering = steering
        self._sending = ports.sending(settings)
        self._seen = 0

    # -- messages -----------------------------------------------------------------------------------------------

    def prompt(self, prepared: PreparedPrompt, blocks: Sequence[Mapping[str, Any]]) -> None:
        """The user's words, with what they bring along."""
        said = UserPromptPart(content=prepared.content, timestamp=datetime.fromtimestamp(self._clock(), UTC))
        attached = tuple(item for _, item in prepared.attachments)
        self._record(ModelRequest(parts=[said]), text=plain_text(blocks), attached=attached)
        for notice in prepared.notices:
            self.notice("warning", notice)

    def begin_run(self, provider: str, *, resumed: bool) -> list[ModelMessage]:
        """The conversation as a new run finds it. What the run adds is recorded by `answer` and `rest`."""
        history = self._sending.begin(self._ports.history, provider, resumed=resumed)
        self._seen = len(history)
        return history

    def use_plain_ids(self) -> bool:
        """The provider may have refused ids that it made itself. False: all of them are plain, or sent so already."""
        return self._sending.use_plain_ids(self._ports.history)

    def begin_response(self, messages: Sequence[ModelMessage]) -> list[ModelMessage]:
        """The next response is about to be asked for: what of the conversation is sent."""
        self._pieces.begin()
        return self._sending.trimmed(messages)

    def answer(self, response: ModelResponse) -> None:
        """A whole response. Its run has it as its next message."""
        self._record(response)
        self._seen += 1

    def shown_only(self, response: ModelResponse) -> None:
        """A response that was told and will not be part of what is sent."""
        self._record(self._pieces.with_own_ids(response), shown_only=True)

    def rest(self, messages: Sequence[ModelMessage], *, keep_partial: bool) -> None:
        """Record what the run has added since we last looked."""
        fresh = messages[self._seen :]
        self._seen = len(messages)
        for message in fresh:
            if not isinstance(message, ModelResponse):
                self._record(message)
            elif message.parts:
                self._record(self._pieces.with_own_ids(message), shown_only=not keep_partial)

    async def left_pieces(self) -> None:
        """What was told and could not be recorded (memory was short, the library broke) is recorded piece by piece."""
        if not self._pieces.unrecorded:
            return
        self._pieces.unrecorded.clear()
        await self._ports.wait_written()
        for record in partial_messages(self._turn_id, await self._ports.left_over(), (), (), self._clock()):
            self._ports.history.append(message_from_json(record.message))
            self._emit(record)

    def _record(
        self,
        message: ModelMessage,
        text: str | None = None,
        attached: tuple[Attachment, ...] = (),
        *,
        shown_only: bool = False,
    ) -> None:
        canonical = to_canonical(_without_instructions(message))
        know(canonical, message)
        self._sending.know(message, canonical)
        assistant = isinstance(message, ModelResponse)
        if assistant:
            self._pieces.end()
        elif text is None:
            self._steering.recording(sum(isinstance(part, UserPromptPart) for part in message.parts))
        if not shown_only:
            self._ports.history.append(canonical)
        self._emit(
            MessageRecord(
                turn_id=self._turn_id,
                message_id=self._pieces.message_id if assistant else self._ports.new_id("msg"),
                role="assistant" if assistant else "user",
                content=canonical.get_text_content() if text is None else text,
                message=message_to_json(canonical),
                timestamp=self._clock(),
                binary_content=attached,
                shown_only=shown_only,
            )
        )
        if assistant:
            self._pieces.unrecorded.discard(self._pieces.message_id)

    # -- beside the messages ------------------------------------------------------------------------------------

    def notice(
        self,
        level: Literal["info", "warning", "error"],
        message: str,
        remedy: str | None = None,
        *,
        cause: FailureKind | None = None,
        retry_after: float | None = None,
    ) -> None:
        self._emit(
            NoticeRecord(
                turn_id=self._turn_id,
                level=level,
                message=message,
                remedy=remedy,
                retry_after=retry_after,
                cause=cause,
                timestamp=self._clock(),
            )
        )

    def show_plan(self, entries: Sequence[PlanEntry]) -> None:
        self._emit(PlanRecord(turn_id=self._turn_id, entries=tuple(entries), timestamp=self._clock()))

    async def changed(self, call_id: str, change: FileChange) -> None:
        """A file was changed: its before-image is kept, then it is told."""
        self.changed_files[change.path.as_uri()] = None
        keep = self._ports.keep
        self._emit(
            FileChangeRecord(
                turn_id=self._turn_id,
                call_id=call_id,
                uri=change.path.as_uri(),
                change=change.change,
                added=change.added,
                removed=change.removed,
                via=change.via,
                before=None if change.before is None else await keep(change.before),
                after=None if change.after is None else await keep(change.after),
                timestamp=self._clock(),
                old_uri=change.old_path.as_uri() if change.old_path else None,
            )
        )


def _without_instructions(message: ModelMessage) -> ModelMessage:
    """Instructions are made anew for every request; stored with each message they would only weigh."""
    return replace(message, instructions=None) if isinstance(message, ModelRequest) else message
