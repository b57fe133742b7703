"""Records the messages of a turn, in the ledger and in the history that is sent with later requests.

Hides: the translation of the library's messages, which messages of a run are recorded already, what is trimmed.
Promises: a message is recorded once and unchanged; streamed text whose message could not be recorded is recorded from
its chunks; the callback of a steer is called right before its message is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart

from pilotfish.config.settings import Settings
from pilotfish.conversation.history.sanitizer import Closing, repair, sanitize_history_for_resume
from pilotfish.conversation.messages import message_from_json, message_to_json
from pilotfish.conversation.records import (
    Attachment,
    FileChangeRecord,
    MessageRecord,
    NoticeRecord,
    PlanEntry,
    PlanRecord,
)
from pilotfish.engine.model.adapter import find_dangling_tool_calls, get_content, to_canonical
from pilotfish.engine.prompting.prompt import PreparedPrompt, plain_text
from pilotfish.engine.turn.history.request_history import Size
from pilotfish.engine.turn.recovery import partial_messages
from pilotfish.engine.turn.response_stream import ResponseStream
from pilotfish.engine.turn.services import Ports
from pilotfish.engine.turn.steering import Steering
from pilotfish.errors import FailureKind
from pilotfish.workspace.edits.changes import FileChange


class Recording:
    """Emits the records of one turn, except its start, its states and its end."""

    def __init__(
        self, ports: Ports, turn_id: str, settings: Settings, stream: ResponseStream, steering: Steering
    ) -> None:
        self.changed_files: dict[str, None] = {}
        self._ports = ports
        self._emit = ports.emit
        self._clock = ports.clock
        self._turn_id = turn_id
        self._stream = stream
        self._steering = steering
        self._request_history = ports.request_history(settings)
        self._recorded_count = 0

    # -- messages -----------------------------------------------------------------------------------------------

    def record_prompt(self, prepared: PreparedPrompt, blocks: Sequence[Mapping[str, Any]]) -> None:
        """Record the prompt with its attachments and notices."""
        content = prepared.content
        if texts := [item for item in content if isinstance(item, str)]:
            # Texts alone are sent as a string: not every server reads a list.
            content = "\n\n".join(texts) if len(texts) == len(content) else content
        part = UserPromptPart(content=content, timestamp=datetime.fromtimestamp(self._clock(), UTC))
        attached = tuple(item for _, item in prepared.attachments)
        self._record(ModelRequest(parts=[part]), text=plain_text(blocks), attached=attached)
        for notice in prepared.notices:
            self.notice("warning", notice)

    def begin_run(self, provider: str, *, resumed: bool) -> list[ModelMessage]:
        """Return the messages that a new run starts with. Later messages go to `record_response` and `record_new`."""
        history = self._request_history.begin(self._ports.history, provider, resumed=resumed)
        self._recorded_count = len(history)
        return history

    def use_plain_ids(self) -> bool:
        """Send plain call ids from now on, because the provider rejects others. Returns False if nothing changes."""
        return self._request_history.use_plain_ids(self._ports.history)

    def choose(self, messages: Sequence[ModelMessage], window: int | None) -> list[ModelMessage]:
        """Return those of the messages that are sent, for a model with this context window."""
        return self._request_history.trimmed(messages, window, self._ports.window.fixed)

    @property
    def size(self) -> Size:
        """The size of the request that `choose` returned last."""
        return self._request_history.size

    def begin_response(self) -> None:
        self._stream.begin()
        if count := self.size.just_folded:
            message = f"The content of {count} older call(s) is no longer sent to the model, to make room."
            self.notice("info", message)

    def record_response(self, response: ModelResponse) -> None:
        """Record a complete response, which is the next message of the run."""
        self._record(response)
        self._recorded_count += 1

    def record_discarded(self, response: ModelResponse) -> None:
        """Record a response for the transcript only; it is not sent again."""
        self._record(self._stream.with_own_ids(response), shown_only=True)

    def record_new(self, messages: Sequence[ModelMessage], *, keep_partial: bool) -> None:
        """Record the messages that the run has added. An incomplete response is sent again only with `keep_partial`."""
        new = messages[self._recorded_count :]
        self._recorded_count = len(messages)
        for message in new:
            if not isinstance(message, ModelResponse):
                self._record(message)
            elif message.parts:
                self._record(self._stream.with_own_ids(message), shown_only=not keep_partial)

    def close_calls(self, closings: Mapping[str, Closing]) -> None:
        """Give calls of the history that have no return the end that is known of them."""
        if find_dangling_tool_calls(self._ports.history):
            self._ports.history[:] = repair(self._ports.history, closings)

    async def record_partial_messages(self) -> None:
        """Record messages from their streamed chunks if the messages themselves could not be recorded."""
        if not self._stream.unrecorded:
            return
        self._stream.end()
        self._stream.unrecorded.clear()
        await self._ports.wait_written()
        for record in partial_messages(self._turn_id, await self._ports.unrecorded_chunks(), (), (), self._clock()):
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
        # Instructions are built anew for every request.
        whole = to_canonical(message)
        canonical = next(iter(sanitize_history_for_resume((whole,))), whole)  # an empty answer is recorded too
        self._request_history.know(message, canonical)
        assistant = isinstance(message, ModelResponse)
        if assistant:
            self._stream.end()
        elif text is None:
            self._steering.recording(sum(isinstance(part, UserPromptPart) for part in message.parts))
        if not shown_only:
            self._ports.history.append(canonical)
        self._emit(
            MessageRecord(
                turn_id=self._turn_id,
                message_id=self._stream.message_id if assistant else self._ports.new_id("msg"),
                role="assistant" if assistant else "user",
                content=get_content(canonical) if text is None else text,
                message=message_to_json(canonical),
                timestamp=self._clock(),
                binary_content=attached,
                shown_only=shown_only,
            )
        )
        if assistant:
            self._stream.unrecorded.discard(self._stream.message_id)

    # -- other records -----------------------------------------------------------------------------------------

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

    async def record_change(self, call_id: str, change: FileChange) -> None:
        """Record a file change, with the file's content before and after it."""
        self.changed_files[change.path.as_uri()] = None
        store = self._ports.store_blob
        self._emit(
            FileChangeRecord(
                turn_id=self._turn_id,
                call_id=call_id,
                uri=change.path.as_uri(),
                change=change.change,
                added=change.added,
                removed=change.removed,
                via=change.via,
                before=None if change.before is None else await store(change.before),
                after=None if change.after is None else await store(change.after),
                timestamp=self._clock(),
                old_uri=change.old_path.as_uri() if change.old_path else None,
            )
        )
