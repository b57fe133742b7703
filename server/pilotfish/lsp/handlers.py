"""The `pilotfish/` methods: each is a thin adapter over `engine.engine.Engine`. `features.FEATURES` registers them.

Prompts are handled in `prompts.py`, what the user connects in `connection_handlers.py`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from pilotfish.engine import commands
from pilotfish.engine.engine import Engine
from pilotfish.engine.frontend import Session
from pilotfish.engine.mcp.offers import resources
from pilotfish.engine.model.catalog.providers import can_be_sent
from pilotfish.engine.model.guide import sample
from pilotfish.engine.session.mentioned_text import SESSION_PREFIX
from pilotfish.errors import BadRequest, StorageError, UnknownCall
from pilotfish.lsp import presentation
from pilotfish.lsp.background_handlers import BackgroundHandlers
from pilotfish.lsp.connection_handlers import ConnectionHandlers
from pilotfish.lsp.editor.approvals import Approvals
from pilotfish.lsp.editor.code_blocks import locate
from pilotfish.lsp.editor.documents import Documents
from pilotfish.lsp.editor.findings import Findings
from pilotfish.lsp.editor.inline_completion import InlineCompletions
from pilotfish.lsp.editor.mentioned import MentionScope, find_mentions
from pilotfish.lsp.editor.mentions import Mentions, wants_sessions
from pilotfish.lsp.frontend import LspFrontend
from pilotfish.lsp.inline_edit import InlineEdit, InlineEdits
from pilotfish.lsp.prompts import Prompts
from pilotfish.policy.rules import Rule, fault_of
from pilotfish.protocol import present, wire
from pilotfish.text.mention_syntax import mentions
from pilotfish.text.uris import path_of

MAX_SESSIONS, MAX_ITEMS, MAX_MENTIONS = 500, 2000, 200  # limits of one page


class Handlers(BackgroundHandlers, ConnectionHandlers):
    """The handlers of one connection."""

    def __init__(self, engine: Engine, frontend: LspFrontend, approvals: Approvals, documents: Documents) -> None:
        self.engine = engine
        self._frontend = frontend
        self._approvals = approvals
        self._documents = documents
        self.roots: Sequence[Path] = ()
        """the client's current workspace folders"""
        self._mentions: Mentions | None = None
        self._closing: asyncio.Future[None] | None = None
        self.prompt = Prompts(engine, frontend, documents).run
        self.edits = InlineEdits(engine, documents)
        self.findings = Findings(frontend.connection, documents, lambda: engine.make_workspace(None))
        frontend.listeners.append(self.findings.on_update)
        self.completions = InlineCompletions(frontend.connection, frontend.client, documents, engine)

    def set_roots(self, roots: Sequence[Path]) -> None:
        self.roots = tuple(roots)
        self.engine.set_roots(roots)
        if self._mentions is not None:
            self._closing = asyncio.ensure_future(self._mentions.aclose())
            self._mentions = None

    def files_changed(self) -> None:
        """Files were created or deleted outside Pilotfish."""
        if self._mentions is not None:
            self._mentions.stale()

    async def aclose(self) -> None:
        """Close the file index and the engine."""
        if self._mentions is not None:
            await self._mentions.aclose()
        await self.engine.aclose()

    # -- sessions -------------------------------------------------------------------------------------------------

    async def session_new(self, params: wire.SessionNewParams) -> wire.Wire:
        folder = _folder(params.workspace_folder)
        if folder is not None and not await asyncio.to_thread(Path(folder).is_dir):
            raise BadRequest(f"workspaceFolder: there is no folder {folder}", field="workspaceFolder")
        if params.model is not None:
            await commands.check_model(self.engine, params.model)
        session = await self.engine.new(folder, params.title, params.model, params.mode)
        self.subscribe(session.id)
        return wire.SessionResult(session=presentation.session(session))

    async def session_list(self, params: wire.SessionListParams) -> wire.Wire:
        folder = _folder(params.workspace_folder)
        listed = await self.engine.list(folder, params.query, params.cursor, min(params.limit, MAX_SESSIONS))
        matches = tuple(wire.SessionMatch(session_id=id_, text=found.text) for id_, found in listed.snippets.items())
        return wire.SessionListResult(
            sessions=tuple(presentation.session(session) for session in listed.sessions),
            matches=matches or None,
            next_cursor=listed.next_cursor,
        )

    async def session_load(self, params: wire.SessionLoadParams) -> wire.Wire:
        loaded = await self.engine.load(params.session_id, params.before, min(params.limit, MAX_ITEMS))
        self.subscribe(params.session_id)
        return wire.SessionLoadResult(
            session=presentation.session(loaded.session),
            items=tuple(present.item(item) for item in loaded.items),
            has_more=loaded.has_more,
            last_seq=loaded.last_seq,
            pending_approvals=tuple(map(self._approvals.request_of, loaded.questions)),
        )

    async def session_rename(self, params: wire.SessionRenameParams) -> wire.Wire:
        return wire.SessionResult(
            session=presentation.session(await self.engine.rename(params.session_id, params.title))
        )

    async def session_delete(self, params: wire.SessionParams) -> wire.Wire:
        await self.engine.delete(params.session_id)
        return wire.Empty()

    async def session_fork(self, params: wire.SessionForkParams) -> wire.Wire:
        session = await self.engine.fork(params.session_id, params.item_id)
        self.subscribe(session.id)
        return wire.SessionResult(session=presentation.session(session))

    async def session_export(self, params: wire.SessionExportParams) -> wire.Wire:
        return wire.SessionExportResult(text=await self.engine.export(params.session_id, params.format))

    async def session_configure(self, params: wire.SessionConfigureParams) -> wire.Wire:
        await self._must_exist(params.session_id)
        if params.model is not None:
            await commands.check_model(self.engine, params.model)
        session = await self.engine.configure(params.session_id, params.model, params.mode)
        return wire.SessionResult(session=presentation.session(session))

    # -- turns ----------------------------------------------------------------------------------------------------

    async def session_cancel(self, params: wire.CancelParams) -> wire.Wire:
        receipt = await self.engine.cancel(params.session_id, params.tool_call_id)
        return present.same(wire.Receipt, receipt)

    async def session_retry(self, params: wire.SessionParams) -> wire.Wire:
        await self.engine.retry(params.session_id)
        return wire.Empty()

    async def session_undo(self, params: wire.UndoParams) -> wire.Wire:
        if not params.dry_run:
            await commands.require_trust(self.engine, params.session_id)
        done = await self.engine.undo(params.session_id, params.turn_id, dry_run=params.dry_run)
        return presentation.reverted(done)

    async def session_redo(self, params: wire.UndoParams) -> wire.Wire:
        if not params.dry_run:
            await commands.require_trust(self.engine, params.session_id)
        done = await self.engine.redo(params.session_id, params.turn_id, dry_run=params.dry_run)
        return presentation.reverted(done)

    async def session_restore(self, params: wire.RestoreParams) -> wire.Wire:
        await commands.require_trust(self.engine, params.session_id)
        restored = await self.engine.restore(params.session_id, params.turn_id)
        files = presentation.reverted(restored.reverted)
        self.subscribe(restored.session.id)
        return wire.RestoreResult(
            session=presentation.session(restored.session),
            changes=files.changes,
            refused=files.refused,
            turns=restored.point.turns,
            commands=restored.reverted.commands,
        )

    async def review_list(self, params: wire.ReviewListParams) -> wire.Wire:
        path = None if params.uri is None else _file(params.uri)
        pending = await self.engine.pending_changes(params.session_id, path)
        encoding = self._documents.encoding
        return wire.ReviewListResult(
            files=tuple(
                presentation.review_file(session_id, file, encoding, with_text=path is not None)
                for session_id, file in pending
            )
        )

    async def review_keep(self, params: wire.ReviewParams) -> wire.Wire:
        path = None if params.uri is None else _file(params.uri)
        return presentation.reverted(await self.engine.decide_changes(params.session_id, "keep", path, params.hunk_ids))

    async def review_undo(self, params: wire.ReviewParams) -> wire.Wire:
        await commands.require_trust(self.engine, params.session_id)
        path = None if params.uri is None else _file(params.uri)
        return presentation.reverted(await self.engine.decide_changes(params.session_id, "undo", path, params.hunk_ids))

    async def review_blame(self, params: wire.BlameParams) -> wire.Wire:
        low, high = (params.range.start.line, params.range.end.line) if params.range else (0, sys.maxsize)
        return wire.BlameResult(
            lines=tuple(
                wire.BlamedLines(
                    range=presentation.lines_range(lines.start, lines.end, "", self._documents.encoding),
                    session_id=lines.session_id,
                    turn_id=lines.turn_id,
                    prompt_title=lines.prompt,
                )
                for lines in await self.engine.blame(_file(params.uri))
                if lines.start <= high and low < lines.end
            )
        )

    async def edit_inline(self, params: wire.InlineEditParams, cancelled: asyncio.Event) -> wire.InlineEditResult:
        commands.require_trusted_folder(self.engine, self.edits.folder(_file(params.uri)))
        return await self._edit(await self.edits.begin(params), params.prompt_id, cancelled)

    async def edit_retry(self, params: wire.InlineRetryParams, cancelled: asyncio.Event) -> wire.InlineEditResult:
        await commands.require_trust(self.engine, params.session_id)
        return await self._edit(await self.edits.again(params.session_id), params.prompt_id, cancelled)

    async def _edit(self, edit: InlineEdit, prompt_id: str | None, cancelled: asyncio.Event) -> wire.InlineEditResult:
        self.subscribe(edit.session_id)
        params = wire.PromptParams(
            session_id=edit.session_id, prompt=edit.prompt, prompt_id=prompt_id, when_busy="queue"
        )
        return await self.edits.result(edit, await self.prompt(params, cancelled, lambda: None))

    async def edit_locate(self, params: wire.LocateParams) -> wire.LocateResult:
        return await locate(self.engine, self._documents, params)

    async def queue_list(self, params: wire.SessionParams) -> wire.Wire:
        line = await self.engine.queue(params.session_id)
        return wire.QueueListResult(
            prompts=tuple(
                wire.QueuedPrompt(prompt_id=waiting.prompt_id, prompt=present.blocks(waiting.blocks), kind=waiting.kind)
                for waiting in line
            )
        )

    async def queue_remove(self, params: wire.QueueRemoveParams) -> wire.Wire:
        await self.engine.withdraw(params.session_id, params.prompt_id)
        return wire.Empty()

    # -- approvals and rules --------------------------------------------------------------------------------------

    async def approval_list(self, params: wire.ApprovalListParams) -> wire.Wire:
        await self._must_exist(params.session_id)
        waiting = self.engine.questions(params.session_id)
        return wire.ApprovalListResult(approvals=tuple(map(self._approvals.request_of, waiting)))

    async def approval_answer(self, params: wire.ApprovalAnswerParams) -> wire.Wire:
        answer = params.model_dump(by_alias=True, exclude_none=True)
        accepted = self._approvals.answer(answer, "client")
        return wire.ApprovalAnswerResult(accepted=await self.engine.answered(params.approval_id, accepted=accepted))

    async def rule_list(self, params: wire.RuleListParams) -> wire.Wire:
        await self._must_exist(params.session_id)
        return wire.RuleListResult(
            rules=tuple(presentation.rule(rule) for rule in self.engine.rules(params.session_id))
        )

    async def rule_add(self, params: wire.RuleAddParams) -> wire.Wire:
        rule = Rule(decision=params.decision, tool=params.tool, pattern=params.pattern, scope=params.scope)
        if fault := fault_of(rule):
            field = "pattern" if params.tool else "tool"
            raise BadRequest(f"{field}: {fault}", field=field)
        if params.scope == "session":
            if params.session_id is None:
                raise BadRequest("sessionId: a rule of scope session needs a session", field="sessionId")
            await self.engine.add_session_rule(params.session_id, rule)
        else:
            self.engine.add_rule(rule, await self._folder_of(params.session_id))
        return wire.RuleAddResult(rule=presentation.rule(rule))

    async def rule_remove(self, params: wire.RuleRemoveParams) -> wire.Wire:
        folder = await self._folder_of(params.session_id)
        for rule in self.engine.rules(params.session_id):
            if presentation.rule_id(rule) == params.id:
                if self.engine.remove_rule(rule, folder):
                    return wire.Empty()
                raise UnknownCall(
                    "Pilotfish cannot remove this rule: it is defined in the settings or in the repository."
                )
        raise UnknownCall(f"No rule has the id {params.id!r}.")

    # -- the rest -------------------------------------------------------------------------------------------------

    async def secret_set(self, params: wire.SecretSetParams) -> wire.Wire:
        key = params.key.strip()
        if not can_be_sent(key):
            raise BadRequest("key: it contains characters that are not allowed in a key", field="key")
        self.engine.set_secret(params.provider, key)
        return wire.Empty()

    async def model_list(self, _: wire.Empty) -> wire.Wire:
        return wire.ModelListResult(
            models=tuple(present.same(wire.Model, model) for model in await self.engine.models()),
            current=self.engine.settings.model,
        )

    async def model_download(self, params: wire.ModelDownloadParams, report: Callable[[str, int], None]) -> str:
        await self.engine.warm()
        from pilotfish.engine.model.local import weights  # imports the HTTP client

        def progress(done: int, total: int) -> None:
            report(f"{100 * done // total} % of {total / 1e9:.1f} GB", 100 * done // total)

        return (await weights.download(weights.known_weights(params.id), progress)).as_uri()

    async def command_list(self, _: wire.Empty) -> wire.Wire:
        listed = commands.listed(await commands.custom_commands(self.engine))
        return wire.CommandListResult(commands=tuple(presentation.command(command) for command in listed))

    async def mention_complete(self, params: wire.MentionParams) -> wire.Wire:
        await self._must_exist(params.session_id)
        if self._mentions is None:
            self._mentions = Mentions(self.roots, self._documents, self._frontend.editor)
        offered = await resources(self.engine.servers_of(params.session_id or ""))
        sessions: Sequence[Session] = ()
        if wants_sessions(params.query):
            folder = await self._folder_of(params.session_id)
            listed = await self.engine.list(folder, None, None, MAX_MENTIONS)
            sessions = [one for one in listed.sessions if one.id != params.session_id and one.turns]
        return await self._mentions.complete(params.query, min(params.limit, MAX_MENTIONS), offered, sessions)

    async def mention_find(self, params: wire.MentionFindParams) -> wire.Wire:
        await self._must_exist(params.session_id)
        folder = await self._folder_of(params.session_id)
        named = [mention.name for mention in mentions(params.text) if mention.name.startswith(SESSION_PREFIX)]
        listed = await self.engine.list(None, None, None, MAX_SESSIONS) if named else None
        sessions = {session.id for session in listed.sessions} if listed else set[str]()
        servers = self.engine.servers_of(params.session_id or "")
        scope = MentionScope(self.engine.make_workspace(folder), servers, sessions)
        return wire.MentionFindResult(mentions=await find_mentions(params.text, scope))

    async def sample_create(self, _: wire.Empty) -> wire.Wire:
        parent = self.engine.ledger.directory / "samples"
        try:
            folder = await asyncio.to_thread(sample.new_sample, parent)
        except OSError as error:
            raise StorageError(
                f"The sample project cannot be written to {parent}: {error.strerror}.",
                remedy="Run `pilotfish sample FOLDER` in a terminal.",
            ) from None
        return wire.SampleResult(folder=folder.as_uri(), file=(folder / sample.START).as_uri(), prompt=sample.PROMPT)

    def subscribe(self, session_id: str) -> None:
        """Send `pilotfish/session/update` for this session, also to a generic client."""
        self._frontend.subscribed.add(session_id)

    async def _must_exist(self, session_id: str | None) -> None:
        if session_id is not None:
            await self.engine.session(session_id)

    async def _folder_of(self, session_id: str | None) -> str | None:
        if session_id is not None:
            return (await self.engine.session(session_id)).workspace_folder
        return str(self.roots[0]) if self.roots else None


def _file(uri: str) -> Path:
    path = path_of(uri)
    if path is None:
        raise BadRequest(f"uri: {uri!r} is not a file URI", field="uri")
    return path


def _folder(uri: str | None) -> str | None:
    if uri is None:
        return None
    path = path_of(uri)
    if path is None:
        raise BadRequest(f"workspaceFolder: {uri!r} is not a file URI", field="workspaceFolder")
    return str(path)
