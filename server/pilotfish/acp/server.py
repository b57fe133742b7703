"""`pilotfish acp`: the agent for editors that use the Agent Client Protocol.

`initialize` is answered as soon as the SDK is imported. The engine loads behind it, in a thread, and every other
request waits for it.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import stat
import sys
from typing import TYPE_CHECKING, Any, cast

import acp
from acp import schema
from pilotfish import __version__
from pilotfish.acp.messages import StdioMessages
from pilotfish.errors import PilotfishError
from pilotfish.telemetry.logs import log_path, start_logging

if TYPE_CHECKING:
    from pilotfish.acp.agent import PilotfishAgent

log = logging.getLogger(__name__)

AGENT = "pilotfish.acp.agent"  # imports the engine
SERVED = frozenset(
    {
        "new_session",
        "load_session",
        "resume_session",
        "fork_session",
        "close_session",
        "list_sessions",
        "set_session_mode",
        "set_config_option",
        "authenticate",
        "prompt",
        "cancel",
        "ext_method",
        "ext_notification",
    }
)
"""what `PilotfishAgent` answers, as the SDK calls it"""


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
    server = AcpServer()
    messages = await StdioMessages.open()
    try:
        # `session/close`, `resume` and `fork` are unstable for the SDK; `initialize` says that they are served.
        await acp.run_agent(cast("acp.Agent", server), messages, use_unstable_protocol=True)
    finally:
        await server.aclose()


class AcpServer:
    """Answers `initialize`, and loads the agent that answers everything else."""

    def __init__(self) -> None:
        self._client: acp.Client | None = None
        self._capabilities = schema.ClientCapabilities()
        self._loading: asyncio.Task[PilotfishAgent] | None = None

    def on_connect(self, conn: acp.Client) -> None:
        self._client = conn

    def __getattr__(self, name: str) -> Any:
        if name not in SERVED:
            raise AttributeError(name)

        async def serve(*arguments: Any, **named: Any) -> Any:
            return await getattr(await self._agent(), name)(*arguments, **named)

        return serve

    async def initialize(
        self, protocol_version: int, client_capabilities: schema.ClientCapabilities | None = None, **_: Any
    ) -> schema.InitializeResponse:
        from pilotfish.acp.authentication import methods

        del protocol_version
        self._capabilities = client_capabilities or schema.ClientCapabilities()
        self._start_loading()
        return schema.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,  # the only one that is spoken here, whatever the client asks for
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=True, embedded_context=True),
                mcp_capabilities=schema.McpCapabilities(http=True, sse=True),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    delete=schema.SessionDeleteCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                    fork=schema.SessionForkCapabilities(),
                ),
                auth=schema.AgentAuthCapabilities(logout=schema.LogoutCapabilities()),
            ),
            auth_methods=methods(),
            agent_info=schema.Implementation(name="pilotfish", title="Pilotfish", version=__version__),
        )

    async def aclose(self) -> None:
        if self._loading is not None:
            await asyncio.wait((self._loading,))
            if not self._loading.cancelled() and self._loading.exception() is None:
                await self._loading.result().aclose()

    def _start_loading(self) -> asyncio.Task[PilotfishAgent]:
        self._loading = asyncio.get_running_loop().create_task(self._load(), name="loading")
        self._loading.add_done_callback(_log_failure)
        return self._loading

    async def _agent(self) -> PilotfishAgent:
        loading = self._loading
        if loading is None or (loading.done() and loading.exception() is not None):
            loading = self._start_loading()  # the user may have removed the cause of a failure
        return await asyncio.shield(loading)

    async def _load(self) -> PilotfishAgent:
        await asyncio.to_thread(importlib.import_module, AGENT)
        from pilotfish.acp.agent import PilotfishAgent

        return await PilotfishAgent.open(self._client, self._capabilities)


def _log_failure(task: asyncio.Task[PilotfishAgent]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("the engine could not be loaded: %s", error, exc_info=error)
