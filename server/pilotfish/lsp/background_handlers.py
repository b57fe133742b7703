"""The `pilotfish/background/` methods: thin adapters over `background.tasks.BackgroundTasks`."""

from __future__ import annotations

from pathlib import Path

from pilotfish.background.tasks import BackgroundTasks
from pilotfish.engine import commands
from pilotfish.engine.engine import Engine
from pilotfish.errors import BadRequest
from pilotfish.lsp import presentation
from pilotfish.protocol import wire
from pilotfish.text.uris import path_of


class BackgroundHandlers:
    """Handlers of tasks in the background."""

    engine: Engine

    @property
    def _tasks(self) -> BackgroundTasks:
        return BackgroundTasks(self.engine)

    async def background_start(self, params: wire.BackgroundStartParams) -> wire.Wire:
        folder: Path | None = None
        if params.workspace_folder is not None and (folder := path_of(params.workspace_folder)) is None:
            raise BadRequest(f"workspaceFolder: {params.workspace_folder!r} is no file URI", field="workspaceFolder")
        if params.model is not None:
            await commands.check_model(self.engine, params.model)
        blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in params.prompt]
        started = await self._tasks.start(blocks, folder=folder, model=params.model, mode=params.mode)
        return wire.BackgroundStartResult(session=presentation.session(started.session), notes=started.notes)

    async def background_resume(self, params: wire.SessionParams) -> wire.Wire:
        return wire.SessionResult(session=presentation.session(await self._tasks.resume(params.session_id)))

    async def background_take_over(self, params: wire.SessionParams) -> wire.Wire:
        await commands.require_trust(self.engine, params.session_id)
        return presentation.reverted(await self._tasks.take_over(params.session_id))

    async def background_branch(self, params: wire.BackgroundBranchParams) -> wire.Wire:
        return wire.BackgroundBranchResult(name=await self._tasks.branch(params.session_id, params.name))

    async def background_discard(self, params: wire.SessionParams) -> wire.Wire:
        await self._tasks.discard(params.session_id)
        return wire.Empty()
