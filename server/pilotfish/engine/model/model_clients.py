"""The HTTP clients of one event loop, and the models that use them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_ai.models import Model

from pilotfish.config.settings import Settings
from pilotfish.engine.model.editor.editor_models import EditorModels
from pilotfish.engine.model.wire.http import create_client

if TYPE_CHECKING:
    import httpx2


class ModelClients:
    """The models and HTTP clients of one event loop."""

    def __init__(self) -> None:
        self.models: dict[tuple[object, ...], Model[Any]] = {}
        self.clients: dict[float, httpx2.AsyncClient] = {}
        self.in_process: dict[tuple[object, ...], httpx2.AsyncClient] = {}
        """clients of models in this process, by file, context window and stall timeout; and of the editor's models"""

    def client(self, settings: Settings) -> httpx2.AsyncClient:
        if settings.stall_timeout not in self.clients:
            self.clients[settings.stall_timeout] = create_client(settings.stall_timeout)
        return self.clients[settings.stall_timeout]

    def client_of_file(self, file: Path, window: int, settings: Settings) -> httpx2.AsyncClient:
        """The client that is answered by the model of a file, in this process."""
        key = (file, window, settings.stall_timeout)
        if key not in self.in_process:
            from pilotfish.engine.model.local.llama import LlamaTransport

            self.in_process[key] = create_client(settings.stall_timeout, LlamaTransport(file, window))
        return self.in_process[key]

    def client_of_editor(self, editor: EditorModels, settings: Settings) -> httpx2.AsyncClient:
        """The client that is answered by the models of the user's editor."""
        key = (editor, settings.stall_timeout)
        if key not in self.in_process:
            from pilotfish.engine.model.editor.transport import EditorTransport

            self.in_process[key] = create_client(settings.stall_timeout, EditorTransport(editor))
        return self.in_process[key]

    async def aclose(self) -> None:
        for client in (*self.clients.values(), *self.in_process.values()):
            await client.aclose()
