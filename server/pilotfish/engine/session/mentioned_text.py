"""Reads what a prompt mentions and is no file: a web page, another session, the terminal, a text of an MCP server.

Promises: a page is fetched only if no rule forbids it, never from this machine or its private network unless a rule
allows that; what others may have written is marked as text from outside (`policy/taint.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from pilotfish.conversation.messages import Category
from pilotfish.conversation.provenance import Source
from pilotfish.conversation.records import SteerRecord, ToolCallRecord, TurnStartRecord
from pilotfish.engine.context import EngineContext
from pilotfish.engine.mcp.offers import read_resource
from pilotfish.engine.prompting.prompt import MentionedText
from pilotfish.engine.prompting.special_mentions import TERMINAL
from pilotfish.engine.turn.calls.facts import collect
from pilotfish.errors import Refused, UnknownSession
from pilotfish.policy import hosts
from pilotfish.policy.secrets import mask
from pilotfish.policy.taint import uses_network
from pilotfish.store.catalog import SessionRow
from pilotfish.text.mention_syntax import is_url
from pilotfish.tools.tool import Subject
from pilotfish.tools.web.web_fetch import page_text
from pilotfish.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pilotfish.engine.mcp.connection import Connection  # imports pydantic-ai
    from pilotfish.engine.session.turn_services import TurnServices

SESSION_PREFIX = "ses_"
MAX_TRANSCRIPT = 12_000  # characters, the last ones
MAX_TERMINAL = 12_000
TERMINAL_SECONDS = 5.0


class MentioningSession(Protocol):
    """The session whose prompt mentions something. `session.LiveSession` implements it."""

    row: SessionRow
    workspace: Workspace
    ports: TurnServices

    @property
    def engine(self) -> EngineContext: ...
    @property
    def servers(self) -> Mapping[str, Connection]: ...


async def read_mention(session: MentioningSession, name: str) -> MentionedText | None:
    """What a mention stands for; None if it names nothing. Raises PilotfishError with the reason if there is something
    that cannot be attached."""
    if is_url(name):
        return await _page(session, name)
    if name.startswith(SESSION_PREFIX):
        return await _other_session(session, name)
    if name == TERMINAL:
        return await _terminal(session)
    text = await read_resource(session.servers, name)
    return (
        None if text is None else MentionedText(Source(kind="mcp", name=name.replace(":", "/", 1), outside=True), text)
    )


async def _page(session: MentioningSession, url: str) -> MentionedText:
    """The page, judged like a call of web_fetch. That the user names the page answers the question about the network,
    and no other one."""
    if not session.engine.settings.network:
        raise Refused("the setting `network` is off")
    workspace = session.workspace
    facts = collect(
        "web_fetch",
        Category.READ_ONLY,
        Subject(url=url),
        resolve=workspace.resolve,
        directory=workspace.processes.cwd,
        walled=False,
    )
    verdict = session.ports.judge(facts)
    if verdict.decision == "deny" or (verdict.decision == "ask" and verdict.rule is not None):
        raise Refused(verdict.reason)
    host = hosts.host_of(url)
    is_local = verdict.decision == "allow" and host is not None and hosts.local_address(host) is not None
    page = await page_text(url, local_network=is_local)
    return MentionedText(Source(kind="web", name=url, outside=True), mask(page.text)[0])


async def _other_session(session: MentioningSession, session_id: str) -> MentionedText | None:
    """The end of another session as a person reads it. It is from outside if that session has read such text."""
    if session_id == session.row.id:
        raise Refused("it is this session")
    engine = session.engine
    try:
        row = await engine.catalog.get(session_id)
    except UnknownSession:
        return None
    text = await engine.catalog.export_markdown(session_id)
    if len(text) > MAX_TRANSCRIPT:
        text = f"[the last {MAX_TRANSCRIPT:,} characters of the session]\n{text[-MAX_TRANSCRIPT:]}"
    records = [entry.record for entry in await engine.ledger.history(session_id)]
    outside = row.imported > 0 or any(
        record.call.source is not None and record.call.source.outside
        for record in records
        if isinstance(record, ToolCallRecord)
    )
    outside = outside or any(isinstance(record, TurnStartRecord | SteerRecord) and record.outside for record in records)
    return MentionedText(Source(kind="session", name=row.title or session_id, outside=outside), mask(text)[0])


async def _terminal(session: MentioningSession) -> MentionedText:
    """The last output of the editor's terminal. Unless its command is known to use no network, it is from outside."""
    editor = session.workspace.editor
    if not editor.can_answer("terminal"):
        raise Refused("this editor does not say what its terminals show")
    answer = await editor.query("terminal", {}, TERMINAL_SECONDS)
    found: Mapping[str, Any] = cast("Mapping[str, Any]", answer) if isinstance(answer, dict) else {}
    text, command = str(found.get("text") or ""), str(found.get("command") or "")
    if not text.strip() and not command:
        raise Refused("no terminal has shown anything yet, and nothing is selected in one")
    source = Source(
        kind="command", name=command[:80] or TERMINAL, outside=not command or uses_network(command) is not None
    )
    head = f"$ {command}\n" if command else ""
    return MentionedText(source, mask(f"{head}{text[-MAX_TERMINAL:]}")[0])
