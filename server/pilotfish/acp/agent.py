"""ACP's methods over the engine. ACP has no workspace trust: the user is asked for each folder until there is an
answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import acp
from acp import schema
from pilotfish.acp import authentication, config_options, presentation
from pilotfish.acp.frontend import AcpFrontend
from pilotfish.acp.mcp_servers import definitions
from pilotfish.acp.messages import REQUEST_ID
from pilotfish.config.settings import load_user
from pilotfish.engine import commands
from pilotfish.engine.engine import Engine
from pilotfish.engine.frontend import Outcome, Session
from pilotfish.errors import BadRequest, PilotfishError, StorageError, UnknownSession
from pilotfish.language_servers.servers import LanguageServers
from pilotfish.store.ledger import Ledger

if TYPE_CHECKING:
    from pilotfish.engine.model.catalog.listing import Available

SESSION_SWITCHES = frozenset({"clear"})  # an ACP agent cannot move its client to another session
AUTHENTICATION_REQUIRED = -32000
RESOURCE_NOT_FOUND = -32002
INTERNAL_ERROR = -32603

McpServer = schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio
Work = asyncio.Task[Outcome | commands.CommandReply]


class PilotfishAgent:
    def __init__(self, engine: Engine, frontend: AcpFrontend) -> None:
        self.engine = engine
        self.frontend = frontend
        frontend.engine = engine
        frontend.setup_changed = self._offer_options
        engine.mcp.changed.append(self._offer_all_commands)
        self._prompts: dict[str, dict[Work, int | str | None]] = {}
        """session → its prompts that are not answered yet, with the ids of their requests"""
        self._sessions: dict[str, None] = {}
        """the sessions that the client has open"""
        self._models: Sequence[Available] = ()
        self._keys: set[str] = set()
        """providers whose key the client has given"""
        self._background: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, client: acp.Client | None, capabilities: schema.ClientCapabilities) -> PilotfishAgent:
        if client is None:
            raise PilotfishError("There is no client.")
        frontend = AcpFrontend(client, capabilities)
        settings = (await asyncio.to_thread(load_user)).settings
        ledger = await asyncio.to_thread(Ledger.open, settings.storage, label="an ACP client")
        engine = Engine(settings, ledger, frontend)
        engine.language_servers = LanguageServers(engine.sandbox)
        return cls(engine, frontend)

    async def aclose(self) -> None:
        await self.engine.aclose()

    # -- sessions ---------------------------------------------------------------------------------------------------

    async def new_session(
        self, cwd: str, mcp_servers: list[McpServer] | None = None, **_: Any
    ) -> schema.NewSessionResponse:
        with _errors():
            session = await self.engine.new(await asyncio.to_thread(_folder, cwd))
        await self._opened(session, mcp_servers)
        return schema.NewSessionResponse(
            session_id=session.id, modes=config_options.modes(session.mode), config_options=self._options(session)
        )

    async def load_session(
        self, session_id: str, mcp_servers: list[McpServer] | None = None, **_: Any
    ) -> schema.LoadSessionResponse:
        with _errors():
            loaded = await self.engine.load(session_id, limit=10_000)
        for item in loaded.items:
            for update in presentation.replayed(item):
                self.frontend.send(session_id, update)
        await self.frontend.sent()
        await self._opened(loaded.session, mcp_servers)
        return schema.LoadSessionResponse(
            modes=config_options.modes(loaded.session.mode), config_options=self._options(loaded.session)
        )

    async def resume_session(
        self, session_id: str, mcp_servers: list[McpServer] | None = None, **_: Any
    ) -> schema.ResumeSessionResponse:
        """Like `load_session`, without the transcript."""
        with _errors():
            session = (await self.engine.load(session_id, limit=1)).session
        await self._opened(session, mcp_servers)
        return schema.ResumeSessionResponse(
            modes=config_options.modes(session.mode), config_options=self._options(session)
        )

    async def fork_session(
        self, session_id: str, mcp_servers: list[McpServer] | None = None, **_: Any
    ) -> schema.ForkSessionResponse:
        with _errors():
            session = await self.engine.fork(session_id)
        await self._opened(session, mcp_servers)
        return schema.ForkSessionResponse(
            session_id=session.id, modes=config_options.modes(session.mode), config_options=self._options(session)
        )

    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        await self.cancel(session_id)
        with _errors():
            await self.engine.close(session_id)
        self._sessions.pop(session_id, None)
        return schema.CloseSessionResponse()

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        with _errors():
            listed = await self.engine.list(cwd, None, cursor)
        return schema.ListSessionsResponse(
            sessions=[presentation.session(session) for session in listed.sessions], next_cursor=listed.next_cursor
        )

    async def _opened(self, session: Session, servers: list[McpServer] | None) -> None:
        self._sessions[session.id] = None
        with _errors():
            await self.engine.use_session_servers(session.id, definitions(servers or ()))
        self._offer_commands(session.id)
        self._later(self._find_models())

    # -- options and keys -------------------------------------------------------------------------------------------

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> schema.SetSessionModeResponse:
        with _errors():
            await self.engine.configure(session_id, mode=mode_id)
        return schema.SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        with _errors():
            match config_id, value:
                case "mode", str():
                    await self.engine.configure(session_id, mode=value)
                case "model", str():
                    await commands.check_model(self.engine, value)
                    await self.engine.configure(session_id, model=value)
                case "thinking", str() if value in config_options.THINKING:
                    wanted = None if value == config_options.DEFAULT_THINKING else value
                    self.engine.set_settings(self.engine.settings.model_copy(update={"thinking": wanted}))
                    for other in self._sessions:
                        self._offer_options(other)
                case _:
                    raise BadRequest(f"{value!r} is not a value of {config_id!r}", field="value")
            session = await self.engine.session(session_id)
        return schema.SetSessionConfigOptionResponse(config_options=self._options(session))

    async def authenticate(self, method_id: str, **meta: Any) -> schema.AuthenticateResponse:
        provider = authentication.provider_of(method_id)
        if provider is None:
            raise acp.RequestError.invalid_params({"methodId": f"there is no method {method_id!r}"})
        if not authentication.has_key(provider):
            key = await self.frontend.questions.key(meta.get(REQUEST_ID), provider.label)
            if key is None:
                variable = provider.variables[0]
                words = f"There is no key for {provider.label}. Set {variable} in the agent's environment."
                raise acp.RequestError(AUTHENTICATION_REQUIRED, words)
            self.engine.set_secret(provider.prefix, key)
            self._keys.add(provider.prefix)
        self._later(self._find_models())
        return schema.AuthenticateResponse()

    async def _log_out(self) -> schema.LogoutResponse:
        """Forget the keys that the client has given. Those of the environment are not ours to remove."""
        for provider in self._keys:
            self.engine.set_secret(provider, "")
        self._keys.clear()
        self._later(self._find_models())
        return schema.LogoutResponse()

    def _options(self, session: Session) -> list[schema.SessionConfigOptionSelect | schema.SessionConfigOptionBoolean]:
        return config_options.options(session, self.engine.settings.thinking, self._models)

    def _offer_options(self, session_id: str) -> None:
        session = self.engine.session_of(session_id)
        if session is not None and session_id in self._sessions:
            options = self._options(session)
            update = schema.ConfigOptionUpdate(session_update="config_option_update", config_options=options)
            self.frontend.send(session_id, update)

    async def _find_models(self) -> None:
        """List the models, which may ask servers on this machine, and offer them where they were not offered."""
        found = await self.engine.models()
        if found != self._models:
            self._models = found
            for session_id in self._sessions:
                self._offer_options(session_id)

    # -- turns ------------------------------------------------------------------------------------------------------

    async def prompt(self, prompt: list[Any], session_id: str, **meta: Any) -> schema.PromptResponse:
        work = asyncio.get_running_loop().create_task(self._prompt(prompt, session_id))
        unanswered = self._prompts.setdefault(session_id, {})
        unanswered[work] = meta.get(REQUEST_ID)
        try:
            with _errors():
                await asyncio.wait((work,))
                if work.cancelled():  # before the session had it
                    return schema.PromptResponse(stop_reason="cancelled")
                outcome = work.result()
        finally:
            del unanswered[work]
        if isinstance(outcome, commands.CommandReply):
            self.frontend.send(session_id, acp.update_agent_message_text(outcome.text))
            await self.frontend.sent()
            return schema.PromptResponse(stop_reason="end_turn")
        await self.frontend.sent()
        if (error := outcome.error) is not None:
            code = AUTHENTICATION_REQUIRED if error.kind == "authentication" else INTERNAL_ERROR
            raise acp.RequestError(code, f"{error.message} {error.remedy}")
        return schema.PromptResponse(
            stop_reason=presentation.STOP_REASONS[outcome.stop_reason], usage=presentation.usage(outcome.usage)
        )

    async def _prompt(self, prompt: list[Any], session_id: str) -> Outcome | commands.CommandReply:
        await self._settle_trust(session_id)
        blocks = [presentation.block(block) for block in prompt]
        if blocks and (typed := commands.typed(str(blocks[0].get("text", "")))) and blocks[0]["type"] == "text":
            answer = await self._command(session_id, typed)
            if isinstance(answer, commands.CommandReply):
                return answer
            if answer is not None:
                blocks[0] = answer.block
        return await self.engine.prompt(session_id, blocks)

    async def _command(
        self, session_id: str, typed: commands.TypedCommand
    ) -> commands.CommandReply | commands.CommandPrompt | None:
        """Run a slash command; None if there is no such command."""
        if (command := commands.BUILT_IN.get(typed.name)) is not None:
            if command.name in SESSION_SWITCHES:
                return commands.CommandReply("Start a new session in your editor: an ACP agent cannot switch to one.")
            return await command.run(self.engine, session_id, typed.arguments) or commands.CommandReply("Stopped.")
        custom = (await commands.custom_commands(self.engine, session_id)).get(typed.name)
        return None if custom is None else await commands.expand(custom, typed.arguments)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """End every prompt of the session, also one that waits for trust, and a resumed turn."""
        for work in self._prompts.get(session_id, ()):
            work.cancel()
        with contextlib.suppress(PilotfishError):
            await self.engine.cancel(session_id)

    # -- methods that the SDK does not route --------------------------------------------------------------------------

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "session/delete":
                asked = schema.DeleteSessionRequest.model_validate(params)
                await self.cancel(asked.session_id)
                with _errors():
                    await self.engine.delete(asked.session_id)
                self._sessions.pop(asked.session_id, None)
                return {}
            case "logout":
                await self._log_out()
                return {}
            case _:
                raise acp.RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """`$/cancel_request` ends a prompt like `session/cancel`; other requests are answered at once anyway."""
        if method == "$/cancel_request":
            request_id = schema.CancelRequestNotification.model_validate(params).request_id
            for session_id, unanswered in self._prompts.items():
                if request_id is not None and request_id in unanswered.values():
                    await self.cancel(session_id)
                    return

    # -- commands and trust -------------------------------------------------------------------------------------------

    def _offer_all_commands(self) -> None:
        for session_id in self._sessions:
            self._offer_commands(session_id)

    def _offer_commands(self, session_id: str) -> None:
        """Send the slash commands, after the response that tells the client the session's id."""

        async def send() -> None:
            listed = commands.listed(await commands.custom_commands(self.engine, session_id))
            offered = [command for command in listed if command.name not in SESSION_SWITCHES]
            self.frontend.send(session_id, presentation.offered(offered))

        self._later(send())

    async def _settle_trust(self, session_id: str) -> None:
        folder = (await self.engine.session(session_id)).workspace_folder
        if folder is None or self.engine.book.trust_of(Path(folder)) is not None:
            return
        trusted = await self.frontend.questions.trust(session_id, folder)
        if trusted is not None:
            with contextlib.suppress(StorageError):  # it still applies in this process
                self.engine.book.trust(Path(folder), trusted)
            self.engine.start_servers(session_id)
            self._offer_commands(session_id)  # those of the folder

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _folder(cwd: str) -> str:
    if not Path(cwd).is_absolute():
        raise BadRequest("cwd: it must be an absolute path", field="cwd")
    if not Path(cwd).is_dir():
        raise BadRequest(f"cwd: there is no folder {cwd}", field="cwd")
    return cwd


@contextlib.contextmanager
def _errors() -> Generator[None]:
    """Convert our errors to ACP errors without internal details."""
    try:
        yield
    except BadRequest as error:
        raise acp.RequestError.invalid_params({error.field: str(error)}) from error
    except UnknownSession as error:
        raise acp.RequestError(RESOURCE_NOT_FOUND, str(error)) from error
    except PilotfishError as error:
        raise acp.RequestError(INTERNAL_ERROR, str(error)) from error
