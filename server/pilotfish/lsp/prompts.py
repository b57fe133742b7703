"""What a user sends: a prompt, a command of theirs that stands for one, or one of our own commands.

Hides: which of them it is, and how each is stopped. Promises: every prompt is answered, cancelled ones too; a command
of ours is answered in words (`reply`) and is in no session's line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pilotfish.conversation.records import Failure
from pilotfish.engine import commands
from pilotfish.errors import BadRequest, TurnError
from pilotfish.lsp import presentation
from pilotfish.lsp.editor.attachments import with_text
from pilotfish.lsp.editor.documents import path_of
from pilotfish.lsp.engine_loader import unless
from pilotfish.protocol import present, wire

if TYPE_CHECKING:
    from pilotfish.engine.frontend import Outcome
    from pilotfish.lsp.handlers import Handlers

CANCELLED = wire.PromptResult(turn_id="", stop_reason="cancelled", usage=wire.Usage())


class Prompts:
    """Of one connection."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._live = handlers.live

    async def run(
        self, params: wire.PromptParams, cancelled: asyncio.Event, in_line: Callable[[], None]
    ) -> wire.PromptResult:
        """Run a prompt, or the command it is. Once `cancelled`, it is stopped, and answered all the same. `in_line` is
        called when what comes later finds the prompt in its session."""
        blocks = [with_text(block, self._handlers.documents) for block in params.prompt]
        first = blocks[0]
        if isinstance(first, wire.TextBlock) and (typed := commands.typed(first.text)) is not None:
            own = await self._handlers.own_commands()
            if typed.name in own:
                blocks[0] = wire.TextBlock(text=own[typed.name].expand(typed.arguments))
            elif (command := COMMANDS.get(typed.name)) is not None:
                if typed.name not in BEGIN_A_TURN:
                    in_line()  # a command is in no line, and may take as long as a model does
                try:
                    answer = await unless(cancelled, command(self, params.session_id, typed.arguments))
                except TurnError as problem:  # a provider that fails is no error of JSON-RPC
                    return _failed(problem)
                if answer is None:
                    return CANCELLED
                if isinstance(answer, wire.PromptResult):
                    return answer
                blocks[0] = answer
        turn = asyncio.ensure_future(
            self._live.prompt(
                params.session_id,
                [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in blocks],
                params.prompt_id,
                params.when_busy,
                in_line,
            )
        )
        return await _stoppable(turn, cancelled)

    # -- our own commands -----------------------------------------------------------------------------------------

    async def say_help(self, _session: str, _arguments: str) -> wire.PromptResult:
        return _reply(commands.help_text(await self._handlers.own_commands()))

    async def say_clear(self, session_id: str, _arguments: str) -> wire.PromptResult:
        old = await self._live.session(session_id)
        session = await self._live.new(old.workspace_folder, None, old.model, old.mode)
        self._handlers.tell_plainly(session.id)
        return _reply("A fresh session.", session_id=session.id)

    async def say_model(self, session_id: str, arguments: str) -> wire.PromptResult:
        if arguments:
            await self._handlers.recognise(arguments)
            session = await self._live.configure(session_id, arguments, None)
            return _reply(f"This session uses `{session.model}` from now on.")
        rows = [
            f"- `{model.id}`" + ("" if model.available else f" (not available: {model.reason})")
            for model in await self._live.models()
        ]
        current = (await self._live.session(session_id)).model
        return _reply("\n".join([f"This session uses `{current}`. `/model NAME` chooses another:", "", *rows]))

    async def say_mode(self, session_id: str, arguments: str) -> wire.PromptResult:
        if arguments:
            session = await self._live.configure(session_id, None, arguments)
            return _reply(f"This session is in mode `{session.mode}` from now on.")
        current = (await self._live.session(session_id)).mode
        return _reply(f"This session is in mode `{current}`. `/mode ask|plan|edit|auto` changes it.")

    async def say_undo(self, session_id: str, _arguments: str) -> wire.PromptResult:
        await self._handlers.needs_trust(session_id)
        return _reply(undone_words(presentation.reverted(await self._live.undo(session_id)), "put back"))

    async def say_compact(self, session_id: str, _arguments: str) -> wire.PromptResult:
        done = await self._live.compact(session_id)
        if done is None:
            return CANCELLED
        words = "The older part is a summary now." if done else "There is not enough behind us to summarise yet."
        return _reply(words)

    async def say_export(self, session_id: str, arguments: str) -> wire.PromptResult:
        if arguments not in ("", "markdown", "json"):
            raise BadRequest("/export takes markdown or json", field="prompt")
        text = await self._live.export(session_id, "json" if arguments == "json" else "markdown")
        return _reply(f"```json\n{text}\n```" if arguments == "json" else text)

    async def say_plan(self, session_id: str, arguments: str) -> wire.PromptResult | wire.TextBlock:
        await self._live.configure(session_id, None, "plan")
        if arguments:
            return wire.TextBlock(text=arguments)
        return _reply("Plan mode: nothing is changed until the mode is another. What should be planned?")


Command = Callable[[Prompts, str, str], Awaitable[wire.PromptResult | wire.TextBlock]]

COMMANDS: Mapping[str, Command] = {
    "help": Prompts.say_help,
    "clear": Prompts.say_clear,
    "model": Prompts.say_model,
    "mode": Prompts.say_mode,
    "undo": Prompts.say_undo,
    "compact": Prompts.say_compact,
    "export": Prompts.say_export,
    "plan": Prompts.say_plan,
}
"""name → what it does: an answer, or the prompt to go on with"""

BEGIN_A_TURN = frozenset({"plan"})
"""what is sent behind one of these means its turn"""


def undone_words(done: wire.UndoResult, verb: str) -> str:
    """What an undo or redo did, in words."""
    count = len(done.changes)
    words = f"{count} file{'' if count == 1 else 's'} {verb}." if count else "No files to put back."
    for refused in done.refused:
        words += f"\n- `{(path_of(refused.uri) or Path(refused.uri)).name}` was left alone: {refused.reason}"
    return words


def _failed(problem: TurnError) -> wire.PromptResult:
    error = present.failure(Failure.of(problem))
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


def _reply(text: str, session_id: str | None = None) -> wire.PromptResult:
    return wire.PromptResult(turn_id="", stop_reason="end_turn", usage=wire.Usage(), reply=text, session_id=session_id)
