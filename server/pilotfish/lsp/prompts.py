"""Runs what a user sends: a prompt, a custom command that stands for a prompt, or a built-in command.

Every prompt is answered, also a cancelled one. A built-in command is answered with a text (`reply`) and is not queued
in its session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from pilotfish.conversation.records import Failure
from pilotfish.engine import commands
from pilotfish.engine.engine import Engine
from pilotfish.errors import TurnError
from pilotfish.lsp import presentation
from pilotfish.lsp.connection.cancellation import unless
from pilotfish.lsp.editor.attachments import with_text
from pilotfish.lsp.editor.documents import Documents
from pilotfish.lsp.frontend import LspFrontend
from pilotfish.protocol import present, wire

if TYPE_CHECKING:
    from pilotfish.engine.frontend import Outcome

CANCELLED = wire.PromptResult(turn_id="", stop_reason="cancelled", usage=wire.Usage())


class Prompts:
    """The prompts of one connection."""

    def __init__(self, engine: Engine, frontend: LspFrontend, documents: Documents) -> None:
        self._engine = engine
        self._frontend = frontend
        self._documents = documents

    async def run(
        self, params: wire.PromptParams, cancelled: asyncio.Event, in_line: Callable[[], None]
    ) -> wire.PromptResult:
        """Run a prompt or the command it calls. Setting `cancelled` stops it; it is still answered. `in_line` is called
        when later requests find the prompt in its session."""
        given = next((block for block in params.prompt if isinstance(block, wire.ContextBlock)), None)
        blocks = [with_text(block, self._documents) for block in params.prompt if block is not given]
        first = blocks[0] if blocks else None
        if isinstance(first, wire.TextBlock) and (typed := commands.typed(first.text)) is not None:
            if (command := commands.BUILT_IN.get(typed.name)) is not None:
                if not command.starts_turn:
                    in_line()  # a command is not queued, and may take as long as a model does
                try:
                    answer = await unless(cancelled, command.run(self._engine, params.session_id, typed.arguments))
                except TurnError as problem:  # a failed provider is a result, not a JSON-RPC error
                    return _failed(problem)
                if answer is None:
                    return CANCELLED
                if isinstance(answer, commands.CommandReply):
                    return self._reply(answer)
                blocks[0] = wire.TextBlock(text=answer.text)
            else:
                custom = await commands.custom_commands(self._engine, params.session_id)
                if typed.name in custom:
                    expanded = await commands.expand(custom[typed.name], typed.arguments)
                    blocks[0] = wire.TextBlock(text=expanded.text, source=expanded.source)
        turn = asyncio.ensure_future(
            self._engine.prompt(
                params.session_id,
                [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in blocks],
                params.prompt_id,
                params.when_busy,
                in_line,
                (given or await self._context()).model_dump(mode="json", by_alias=True, exclude_none=True),
            )
        )
        return await _stoppable(turn, cancelled)

    async def _context(self) -> wire.EditorContext:
        """What the user looks at, if the prompt does not say it: the client's answer, or the place of the last edit,
        code action or hover."""
        if (answer := await self._frontend.editor.context()) is not None:
            return answer
        place = self._documents.last_place
        if place is None or self._documents.get(place.uri) is None:
            return wire.EditorContext()
        start, end = (wire.Position(line=at.line, character=at.character) for at in (place.start, place.end))
        selection = wire.Range(start=start, end=end) if place.start != place.end else None
        return wire.EditorContext(active=wire.ActiveDocument(uri=place.uri, cursor=end, selection=selection))

    def _reply(self, reply: commands.CommandReply) -> wire.PromptResult:
        if reply.session_id is not None:
            self._frontend.subscribed.add(reply.session_id)
        return wire.PromptResult(
            turn_id="", stop_reason="end_turn", usage=wire.Usage(), reply=reply.text, session_id=reply.session_id
        )


def _failed(problem: TurnError) -> wire.PromptResult:
    error = present.same(wire.Failure, Failure.of(problem))
    return wire.PromptResult(turn_id="", stop_reason="failed", usage=wire.Usage(), error=error)


async def _stoppable(turn: asyncio.Future[Outcome], cancelled: asyncio.Event) -> wire.PromptResult:
    """The result of a turn that `cancelled` may stop."""
    # Once around the loop: a task that is cancelled before its first step never gets to end in its own way.
    await asyncio.sleep(0)
    stop = asyncio.ensure_future(cancelled.wait())
    stop.add_done_callback(lambda stop: stop.cancelled() or turn.cancel())
    try:
        return presentation.outcome(await turn)
    except asyncio.CancelledError:
        return CANCELLED
    finally:
        stop.cancel()
