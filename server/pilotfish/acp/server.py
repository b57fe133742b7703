"""`pilotfish acp`: the agent for editors that use the Agent Client Protocol. It adapts the engine to ACP."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import acp
from acp import schema
from pilotfish import __version__
from pilotfish.acp import words
from pilotfish.config.settings import load_user
from pilotfish.engine import commands
from pilotfish.engine.engine import Engine
from pilotfish.engine.frontend import Answer, OptionId, Outcome, Question, SessionUpdate
from pilotfish.errors import BadRequest, PilotfishError, StorageError, UnknownSession
from pilotfish.store.ledger import Ledger
from pilotfish.telemetry.logs import log_path, start_logging
from pilotfish.text.display_safe import display_safe
from pilotfish.workspace.editor import Editor, NoEditor

log = logging.getLogger(__name__)

SESSION_SWITCHES = frozenset({"clear"})  # an ACP agent cannot move its client to another session
MAX_WAITING = 64  # updates the client may lag behind before chunks are joined


def main() -> int:
    """Serve until the client disconnects."""
    if any(stat.S_ISREG(os.fstat(stream).st_mode) for stream in (0, 1)):
        raise PilotfishError("pilotfish acp speaks with an editor over pipes; its input or output is a file.")
    if sys.stdin.isatty():
        sys.stderr.write("pilotfish acp waits for an editor to speak to it. To talk to it yourself: pilotfish chat\n")
    start_logging(log_path())
    asyncio.run(_serve())
    return 0


async def _serve() -> None:
    agent = PilotfishAgent()
    try:
        await acp.run_agent(cast("acp.Agent", agent))
    finally:
        await agent.aclose()


class AcpFrontend:
    """Implements `engine.frontend.Frontend` for an ACP client: ordered updates, approvals as permission requests."""

    def __init__(self) -> None:
        self.client: acp.Client | None = None
        self.live: Engine | None = None
        self._queue: asyncio.Queue[tuple[str, words.Update]] = asyncio.Queue()
        self._sender: asyncio.Task[None] | None = None
        self._questions: dict[str, asyncio.Task[None]] = {}
        self._announced: set[str] = set()

    @property
    def editor(self) -> Editor:
        return NoEditor()

    @property
    def keeps_up(self) -> bool:
        return self._queue.qsize() < MAX_WAITING

    async def room(self) -> None:
        await self.sent()

    def notify(self, update: SessionUpdate) -> None:
        for message in words.updates(update.record, self._announced):
            self.send(update.session_id, message)

    def send(self, session_id: str, update: words.Update) -> None:
        self._queue.put_nowait((session_id, update))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.get_running_loop().create_task(self._send())

    async def sent(self) -> None:
        """Wait until every update so far is written."""
        if self._sender is not None:
            await asyncio.wait((self._sender,))

    def ask(self, question: Question) -> None:
        self._questions[question.approval_id] = asyncio.get_running_loop().create_task(self._ask(question))

    def resolved(self, question: Question, option_id: str, by: str) -> None:
        del option_id, by
        task = self._questions.pop(question.approval_id, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def ask_user(self, session_id: str, turn_id: str, question: str, options: Sequence[str]) -> str | None:
        """ACP has no request for a question, so the options are offered as a permission request."""
        del turn_id
        if not options:
            return None
        return await self.choose(session_id, display_safe(question), list(options))

    async def choose(self, session_id: str, title: str, options: list[str]) -> str | None:
        if self.client is None:
            return None
        answer = await self.client.request_permission(
            session_id=session_id,
            tool_call=schema.ToolCallUpdate(tool_call_id=f"ask_{abs(hash(title)):x}", title=title, kind="other"),
            options=[
                schema.PermissionOption(option_id=str(index), name=display_safe(option), kind="allow_once")
                for index, option in enumerate(options)
            ],
        )
        offered = {str(index): option for index, option in enumerate(options)}
        return offered.get(answer.outcome.option_id) if isinstance(answer.outcome, schema.AllowedOutcome) else None

    async def _ask(self, question: Question) -> None:
        if self.client is None or self.live is None:
            return
        try:
            await self.sent()
            answer = await self.client.request_permission(
                session_id=question.session_id,
                tool_call=words.question(question),
                options=[words.option(option) for option in question.options],
            )
        except Exception:
            log.exception("a permission could not be asked")
            self.live.answer(question.approval_id, None)
            return
        outcome = answer.outcome
        if isinstance(outcome, schema.AllowedOutcome):
            offered: dict[str, OptionId] = {option.id: option.id for option in question.options}
            option = offered.get(outcome.option_id, "reject")
            self.live.answer(question.approval_id, Answer(option_id=option, by="client"))
        else:
            await self.live.cancel(question.session_id)  # ACP: a cancelled question means a cancelled turn

    async def _send(self) -> None:
        while self.client is not None and not self._queue.empty():
            session_id, update = self._queue.get_nowait()
            try:
                await self.client.session_update(session_id=session_id, update=update)
            except ConnectionError:
                log.warning("the client is gone")
                while not self._queue.empty():
                    self._queue.get_nowait()
            except Exception:
                log.warning("an update could not be sent", exc_info=True)


class PilotfishAgent:
    """ACP's methods over the engine. ACP has no workspace trust: the user is asked for each folder until there is an
    answer."""

    def __init__(self) -> None:
        self.face = AcpFrontend()
        loaded = load_user()
        self.live = Engine(loaded.settings, Ledger.open(loaded.settings.storage, label="an ACP client"), self.face)
        self.face.live = self.live
        self._prompts: dict[str, set[asyncio.Task[Outcome | commands.CommandReply]]] = {}
        """session → its prompts that are not answered yet"""
        self._background: set[asyncio.Task[None]] = set()

    def on_connect(self, conn: acp.Client) -> None:
        self.face.client = conn

    async def aclose(self) -> None:
        await self.live.aclose()

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        return schema.InitializeResponse(
            protocol_version=min(protocol_version, acp.PROTOCOL_VERSION),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=True, embedded_context=True),
                # Not `delete`: the SDK carries no `session/delete` to an agent.
                session_capabilities=schema.SessionCapabilities(list=schema.SessionListCapabilities()),
            ),
            agent_info=schema.Implementation(name="pilotfish", title="Pilotfish", version=__version__),
        )

    async def new_session(self, cwd: str, **_: Any) -> schema.NewSessionResponse:
        with _errors():
            session = await self.live.new(await asyncio.to_thread(_folder, cwd))
        self._offer_commands(session.id)
        return schema.NewSessionResponse(session_id=session.id, modes=words.modes(session.mode))

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> schema.LoadSessionResponse:
        del cwd
        with _errors():
            loaded = await self.live.load(session_id, limit=10_000)
        for item in loaded.items:
            for update in words.replayed(item):
                self.face.send(session_id, update)
        await self.face.sent()
        self._offer_commands(session_id)
        return schema.LoadSessionResponse(modes=words.modes(loaded.session.mode))

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        with _errors():
            listed = await self.live.list(cwd, None, cursor)
        return schema.ListSessionsResponse(
            sessions=[words.session(session) for session in listed.sessions], next_cursor=listed.next_cursor
        )

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> schema.SetSessionModeResponse:
        with _errors():
            await self.live.configure(session_id, mode=mode_id)
        return schema.SetSessionModeResponse()

    async def authenticate(self, method_id: str, **_: Any) -> schema.AuthenticateResponse | None:
        raise acp.RequestError.invalid_params({"methodId": f"there is no method {method_id!r}"})

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> schema.PromptResponse:
        work = asyncio.get_running_loop().create_task(self._prompt(prompt, session_id))
        unanswered = self._prompts.setdefault(session_id, set())
        unanswered.add(work)
        try:
            with _errors():
                await asyncio.wait((work,))
                if work.cancelled():  # before the session had it
                    return schema.PromptResponse(stop_reason="cancelled")
                outcome = work.result()
        finally:
            unanswered.discard(work)
        if isinstance(outcome, commands.CommandReply):
            self.face.send(session_id, acp.update_agent_message_text(outcome.text))
            await self.face.sent()
            return schema.PromptResponse(stop_reason="end_turn")
        await self.face.sent()
        if outcome.error is not None:
            raise acp.RequestError(-32000, f"{outcome.error.message} {outcome.error.remedy}")
        return schema.PromptResponse(stop_reason=words.STOP_REASONS[outcome.stop_reason])

    async def _prompt(self, prompt: list[Any], session_id: str) -> Outcome | commands.CommandReply:
        await self._settle_trust(session_id)
        blocks = [words.block(block) for block in prompt]
        if blocks and (typed := commands.typed(str(blocks[0].get("text", "")))) and blocks[0]["type"] == "text":
            answer = await self._command(session_id, typed)
            if isinstance(answer, commands.CommandReply):
                return answer
            if answer is not None:
                blocks[0] = {"type": "text", "text": answer.text}
        return await self.live.prompt(session_id, blocks)

    async def _command(
        self, session_id: str, typed: commands.TypedCommand
    ) -> commands.CommandReply | commands.CommandPrompt | None:
        """Run a slash command; None if there is no such command."""
        if (command := commands.BUILT_IN.get(typed.name)) is not None:
            if command.name in SESSION_SWITCHES:
                return commands.CommandReply("Start a new session in your editor: an ACP agent cannot switch to one.")
            return await command.run(self.live, session_id, typed.arguments) or commands.CommandReply("Stopped.")
        custom = (await commands.custom_commands(self.live, session_id)).get(typed.name)
        return None if custom is None else commands.CommandPrompt(custom.expand(typed.arguments))

    def _offer_commands(self, session_id: str) -> None:
        """Send the slash commands, after the response that tells the client the session's id."""

        async def send() -> None:
            listed = commands.listed(await commands.custom_commands(self.live, session_id))
            offered = [command for command in listed if command.name not in SESSION_SWITCHES]
            self.face.send(session_id, words.offered(offered))

        task = asyncio.get_running_loop().create_task(send())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """End every prompt of the session, also one that waits for trust, and a resumed turn."""
        for work in self._prompts.get(session_id, ()):
            work.cancel()
        with contextlib.suppress(PilotfishError):
            await self.live.cancel(session_id)

    async def _settle_trust(self, session_id: str) -> None:
        folder = (await self.live.session(session_id)).workspace_folder
        if folder is None or self.live.book.trust_of(Path(folder)) is not None:
            return
        answer = await self.face.choose(
            session_id, f"Trust {display_safe(folder)}?", ["Trust this folder", "Read only"]
        )
        if answer is not None:
            with contextlib.suppress(StorageError):  # it still applies in this process
                self.live.book.trust(Path(folder), answer == "Trust this folder")


def _folder(cwd: str) -> str:
    if not Path(cwd).is_absolute():
        raise BadRequest("cwd: it must be an absolute path", field="cwd")
    if not Path(cwd).is_dir():
        raise BadRequest(f"cwd: there is no folder {cwd}", field="cwd")
    return cwd


@contextlib.contextmanager
def _errors() -> Any:
    """Convert our errors to ACP errors without internal details."""
    try:
        yield
    except BadRequest as error:
        raise acp.RequestError.invalid_params({error.field: str(error)}) from error
    except UnknownSession as error:
        raise acp.RequestError(-32002, str(error)) from error  # ACP's code for a resource that is not there
    except PilotfishError as error:
        raise acp.RequestError(-32000, str(error)) from error
