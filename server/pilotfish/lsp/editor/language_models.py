"""The language models of the client, as the engine's port: sends requests to the client and receives their chunks."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence

from pilotfish.engine.model.editor.editor_models import (
    EditorModelError,
    EditorRequest,
    Finished,
    ModelToolCall,
    ModelUsage,
    OfferedModel,
    TextBlock,
)
from pilotfish.errors import BadRequest
from pilotfish.lsp.connection.params import read
from pilotfish.lsp.connection.protocol import ClientError, Connection
from pilotfish.protocol import present, wire

log = logging.getLogger(__name__)


class LanguageModels:
    """Implements `engine.model.editor.editor_models.EditorModels` over a connection."""

    def __init__(self, connection: Connection, offered: Callable[[], Sequence[wire.OfferedModel]]) -> None:
        self._connection = connection
        self._offered = offered
        self._answers: dict[str, asyncio.Queue[TextBlock | ModelToolCall | None]] = {}

    @property
    def offered(self) -> Sequence[OfferedModel]:
        return [OfferedModel(**model.model_dump()) for model in self._offered()]

    def received(self, chunk: wire.ModelChunkParams) -> None:
        """Pass on a chunk. Chunks of a request that was stopped are dropped."""
        if (answer := self._answers.get(chunk.request_id)) is None:
            return
        match chunk.part:
            case wire.TextBlock(text=text):
                answer.put_nowait(TextBlock(text))
            case wire.ModelToolCall(id=id_, name=name, input=arguments):
                answer.put_nowait(ModelToolCall(id_, name, arguments))

    async def stream(self, request: EditorRequest) -> AsyncGenerator[TextBlock | ModelToolCall | Finished]:
        request_id = str(uuid.uuid4())
        answer = self._answers[request_id] = asyncio.Queue[TextBlock | ModelToolCall | None]()
        params = wire.ModelRequestParams(
            request_id=request_id,
            model=request.model,
            messages=tuple(present.same(wire.ModelMessage, message) for message in request.messages),
            tools=tuple(present.same(wire.ModelTool, tool) for tool in request.tools),
            options=dict(request.options),
        )
        asked = asyncio.ensure_future(self._connection.request("pilotfish/model/request", params))
        asked.add_done_callback(lambda _: answer.put_nowait(None))
        try:
            while (event := await answer.get()) is not None:
                yield event
            yield _finished(asked)
        finally:
            del self._answers[request_id]
            asked.cancel()  # the connection cancels the request in the client


def _finished(asked: asyncio.Future[object]) -> Finished:
    """The end of an answer. Raises EditorModelError if the request failed."""
    try:
        result = read(wire.ModelRequestResult, asked.result() or {})
    except (ClientError, BadRequest) as error:
        log.warning("pilotfish/model/request: %s", error)
        raise EditorModelError("other", str(error)) from None
    if result.error is not None:
        raise EditorModelError(result.error.kind, result.error.message)
    usage = result.usage
    return Finished(result.finish, ModelUsage(usage.input_tokens, usage.output_tokens) if usage else None)
