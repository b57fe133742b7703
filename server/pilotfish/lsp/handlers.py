"""The `pilotfish/` methods: each is a thin adapter over `engine.engine.Engine`. `features.FEATURES` registers them.

Prompts are handled in `prompts.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from pilotfish.engine import commands
from pilotfish.engine.engine import Engine
from pilotfish.engine.model.providers import can_be_sent
from pilotfish.errors import BadRequest, UnknownCall
from pilotfish.lsp import presentation
from pilotfish.lsp.editor.approvals import Approvals
from pilotfish.lsp.editor.documents import Documents
from pilotfish.lsp.editor.mentions import Mentions
from pilotfish.lsp.frontend import LspFrontend
from pilotfish.lsp.prompts import Prompts
from pilotfish.lsp.uris import path_of
from pilotfish.policy.judge import Rule
from pilotfish.policy.rules import fault_of
from pilotfish.protocol import present, wire

MAX_SESSIONS, MAX_ITEMS, MAX_MENTIONS = 500, 2000, 200  # limits of one page


class Handlers:
    """The handlers of one connection."""

    def __init__(self, live: Engine, face: LspFrontend, approvals: Approvals, documents: Documents) -> None:
        self.live = live
        self._face = face
        self._approvals = approvals
        self._documents = documents
        self.roots: Sequence[Path] = ()
        """the client's current workspace folders"""
        self._mentions: Mentions | None = None
        self._closing: asyncio.Future[None] | None = None
        self.prompt = Prompts(live, face, documents).run

    def set_roots(self, roots: Sequence[Path]) -> None:
        self.roots = tuple(roots)
        self.live.set_roots(roots)
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
        await self.live.aclose()

    # -- sessions -------------------------------------------------------------------------------------------------

    async def session_new(self, params: wire.SessionNewParams) -> wire.Wire:
        folder = _folder(params.workspace_folder)
        if folder is not None and not await asyncio.to_thread(Path(folder).is_dir):
            raise BadRequest(f"workspaceFolder: there is no folder {folder}", field="workspaceFolder")
        if params.model is not None:
            await commands.check_model(self.live, params.model)
        session = await self.live.new(folder, params.title, params.model, params.mode)
        self.tell_plainly(session.id)
        return wire.SessionResult(session=presentation.session(session))

    async def session_list(self, params: wire.SessionListParams) -> wire.Wire:
        folder = _folder(params.workspace_folder)
        listed = await self.live.list(folder, params.query, params.cursor, min(params.limit, MAX_SESSIONS))
        return wire.SessionListResult(
            sessions=tuple(presentation.session(session) for session in listed.sessions), next_cursor=listed.next_cursor
        )

    async def session_load(self, params: wire.SessionLoadParams) -> wire.Wire:
        loaded = await self.live.load(params.session_id, params.before, min(params.limit, MAX_ITEMS))
        self.tell_plainly(params.session_id)
        return wire.SessionLoadResult(
            session=presentation.session(loaded.session),
            items=tuple(present.item(item) for item in loaded.items),
            has_more=loaded.has_more,
            last_seq=loaded.last_seq,
            pending_approvals=tuple(presentation.question(question) for question in loaded.questions),
        )

    async def session_rename(self, params: wire.SessionRenameParams) -> wire.Wire:
        return wire.SessionResult(session=presentation.session(await self.live.rename(params.session_id, params.title)))

    async def session_delete(self, params: wire.SessionParams) -> wire.Wire:
        await self.live.delete(params.session_id)
        return wire.Empty()

    async def session_fork(self, params: wire.SessionForkParams) -> wire.Wire:
        session = await self.live.fork(params.session_id, params.item_id)
        self.tell_plainly(session.id)
        return wire.SessionResult(session=presentation.session(session))

    async def session_export(self, params: wire.SessionExportParams) -> wire.Wire:
        return wire.SessionExportResult(text=await self.live.export(params.session_id, params.format))

    async def session_configure(self, params: wire.SessionConfigureParams) -> wire.Wire:
        await self._must_exist(params.session_id)
        if params.model is not None:
            await commands.check_model(self.live, params.model)
        session = await self.live.configure(params.session_id, params.model, params.mode)
        return wire.SessionResult(session=presentation.session(session))

    # -- turns ----------------------------------------------------------------------------------------------------

    async def session_cancel(self, params: wire.CancelParams) -> wire.Wire:
        receipt = await self.live.cancel(params.session_id, params.tool_call_id)
        return present.receipt(receipt) or wire.Receipt()

    async def session_retry(self, params: wire.SessionParams) -> wire.Wire:
        await self.live.retry(params.session_id)
        return wire.Empty()

    async def session_undo(self, params: wire.UndoParams) -> wire.Wire:
        if not params.dry_run:
            await commands.require_trust(self.live, params.session_id)
        done = await self.live.undo(params.session_id, params.turn_id, dry_run=params.dry_run)
        return presentation.reverted(done)

    async def session_redo(self, params: wire.UndoParams) -> wire.Wire:
        if not params.dry_run:
            await commands.require_trust(self.live, params.session_id)
        done = await self.live.redo(params.session_id, params.turn_id, dry_run=params.dry_run)
        return presentation.reverted(done)

    async def queue_list(self, params: wire.SessionParams) -> wire.Wire:
        line = await self.live.queue(params.session_id)
        return wire.QueueListResult(
            prompts=tuple(
                wire.QueuedPrompt(prompt_id=waiting.prompt_id, prompt=present.blocks(waiting.blocks), kind=waiting.kind)
                for waiting in line
            )
        )

    async def queue_remove(self, params: wire.QueueRemoveParams) -> wire.Wire:
        await self.live.withdraw(params.session_id, params.prompt_id)
        return wire.Empty()

    # -- approvals and rules --------------------------------------------------------------------------------------

    async def approval_list(self, params: wire.ApprovalListParams) -> wire.Wire:
        await self._must_exist(params.session_id)
        waiting = self.live.questions(params.session_id)
        return wire.ApprovalListResult(approvals=tuple(presentation.question(question) for question in waiting))

    async def approval_answer(self, params: wire.ApprovalAnswerParams) -> wire.Wire:
        said = params.model_dump(by_alias=True, exclude_none=True)
        return wire.ApprovalAnswerResult(accepted=self._approvals.answer(said, "client"))

    async def rule_list(self, params: wire.RuleListParams) -> wire.Wire:
        await self._must_exist(params.session_id)
        return wire.RuleListResult(rules=tuple(presentation.rule(rule) for rule in self.live.rules(params.session_id)))

    async def rule_add(self, params: wire.RuleAddParams) -> wire.Wire:
        rule = Rule(decision=params.decision, tool=params.tool, pattern=params.pattern, scope=params.scope)
        if fault := fault_of(rule):
            field = "pattern" if params.tool else "tool"
            raise BadRequest(f"{field}: {fault}", field=field)
        if params.scope == "session":
            if params.session_id is None:
                raise BadRequest("sessionId: a rule of scope session needs a session", field="sessionId")
            await self.live.add_session_rule(params.session_id, rule)
        else:
            self.live.add_rule(rule, await self._folder_of(params.session_id))
        return wire.RuleAddResult(rule=presentation.rule(rule))

    async def rule_remove(self, params: wire.RuleRemoveParams) -> wire.Wire:
        folder = await self._folder_of(params.session_id)
        for rule in self.live.rules(params.session_id):
            if presentation.rule_id(rule) == params.id:
                if self.live.remove_rule(rule, folder):
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
        self.live.set_secret(params.provider, key)
        return wire.Empty()

    async def model_list(self, _: wire.Empty) -> wire.Wire:
        return wire.ModelListResult(
            models=tuple(
                wire.Model(
                    id=model.id,
                    label=model.label,
                    provider=model.provider,
                    available=model.available,
                    reason=model.reason,
                    context_window=model.context_window,
                    price=model.price and wire.Price(input=model.price.input, output=model.price.output),
                    images=model.images,
                )
                for model in await self.live.models()
            ),
            current=self.live.settings.model,
        )

    async def command_list(self, _: wire.Empty) -> wire.Wire:
        listed = commands.listed(await commands.custom_commands(self.live))
        return wire.CommandListResult(commands=tuple(presentation.command(command) for command in listed))

    async def mention_complete(self, params: wire.MentionParams) -> wire.Wire:
        await self._must_exist(params.session_id)
        if self._mentions is None:
            self._mentions = Mentions(self.roots, self._documents, self._face.editor)
        return await self._mentions.complete(params.query, min(params.limit, MAX_MENTIONS))

    def tell_plainly(self, session_id: str) -> None:
        """Send `pilotfish/session/update` for this session, also to a generic client."""
        self._face.told_plainly.add(session_id)

    async def _must_exist(self, session_id: str | None) -> None:
        if session_id is not None:
            await self.live.session(session_id)

    async def _folder_of(self, session_id: str | None) -> str | None:
        if session_id is not None:
            return (await self.live.session(session_id)).workspace_folder
        return str(self.roots[0]) if self.roots else None


def _folder(uri: str | None) -> str | None:
    if uri is None:
        return None
    path = path_of(uri)
    if path is None:
        raise BadRequest(f"workspaceFolder: {uri!r} is no file URI", field="workspaceFolder")
    return str(path)
