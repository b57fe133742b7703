"""The words of a Chat answer, told before the library has looked at anything else of it.

For every chunk the library makes an object, copies the usage so far, enters three contexts and passes four generators:
most of the time between the first byte of an answer and its first words. Chunks that hold words and nothing else, as
the first ones of an answer do, go straight to the library's own hook for words; from the first other chunk on the
stream is the library's. `tests/engine/test_lean_openai.py` compares both with the library's way alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from openai.types.chat import ChatCompletionChunk
from pydantic_ai._utils import UNSET, Unset, number_to_datetime
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelResponseStreamEvent
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models._decode_errors import map_decode_errors
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIStreamedResponse, _map_api_errors

from pilotfish.engine.lean_pieces import Json, words_in

if TYPE_CHECKING:
    from pilotfish.engine.lean_openai import LeanStream


def processor(model: OpenAIChatModel) -> Callable[..., Awaitable[OpenAIStreamedResponse]]:
    """What makes a response of a lean stream, in place of the model's `_process_streamed_response`."""
    provider = model._provider  # noqa: SLF001  # this stands in for a hook of the model, which reads it too
    name, namespace, url = provider.name, provider.model_id_namespace, provider.base_url
    system = model._canonical_system_stamp  # noqa: SLF001  # likewise: the hook puts it on the response

    async def processed(
        response: LeanStream[ChatCompletionChunk],
        model_request_parameters: ModelRequestParameters,
        model_settings: Any = None,
    ) -> OpenAIStreamedResponse:
        ahead = Ahead(response)
        streamed = LeanChatResponse(  # while the first words are on their way
            model_request_parameters=model_request_parameters,
            _model_name=model.model_name,
            _model_profile=model.profile,
            _response=cast("Any", ahead),
            _provider_name=name,
            _model_id_namespace=namespace,
            _provider_url=url,
            _model_settings=model_settings,
        )
        streamed.canonical_system = system
        with _map_api_errors(model.model_name, namespace), map_decode_errors(model.model_name):
            first = await ahead.peek()
            is_plain = not isinstance(first, Unset) and words_in(first) is not None
            chunk = None if is_plain else await ahead.chunk()
        if isinstance(first, Unset):
            raise UnexpectedModelBehavior("Streamed response ended without content or tool calls")
        streamed.say_model(first["model"] if chunk is None else chunk.model)
        return streamed

    return processed


class LeanChatResponse(OpenAIStreamedResponse):
    """The library's response, with a short way for words."""

    def say_model(self, name: str) -> None:
        """The model that answers, when its first chunk says so."""
        self._model_name = name or self._model_name

    async def plain_events(self) -> AsyncIterator[ModelResponseStreamEvent]:
        """What is said, and nothing of where parts end and which may be the last: nobody listens to that."""
        async for event in self._get_event_iterator():
            yield event
        self._finished = not self._cancelled

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        ahead = cast("Ahead", self._response)
        while (words := await self._words(ahead)) is not None:
            if words:
                for event in self._map_text_delta(cast("Any", _Choice(words))):
                    yield event
        async for event in super()._get_event_iterator():
            yield event

    async def _words(self, ahead: Ahead) -> str | None:
        """The words of the next chunk, when it is plain. None: it is not, or there is none."""
        try:
            data = await ahead.peek()
        except Exception:  # raised again for the library, which knows the words for it
            return None
        if isinstance(data, Unset) or (words := words_in(data)) is None:
            return None
        ahead.skip()
        if self._provider_timestamp is None and data["created"]:
            self._provider_timestamp = number_to_datetime(data["created"])
            self._note("timestamp", self._provider_timestamp)
        if tier := data.get("service_tier"):
            self._note("service_tier", tier)
        self.provider_response_id = data["id"] or self.provider_response_id
        self.say_model(data["model"])
        return words

    def _note(self, name: str, value: object) -> None:
        """A new dict each time: who has taken a look at the response keeps what was there."""
        self.provider_details = {**(self.provider_details or {}), name: value}

    def get_stream_cancel_errors(self) -> tuple[type[BaseException], ...]:
        # The library looks through the disk for another one that is not installed, whenever a stream is stopped.
        if not _CANCEL_ERRORS:
            _CANCEL_ERRORS.extend(super().get_stream_cancel_errors())
        return tuple(_CANCEL_ERRORS)


_CANCEL_ERRORS: list[type[BaseException]] = []


class _Delta:
    __slots__ = ("content",)
    annotations = None

    def __init__(self, words: str) -> None:
        self.content = words


class _Choice:
    """As much of a choice as the hook for words looks at."""

    __slots__ = ("delta",)

    def __init__(self, words: str) -> None:
        self.delta = _Delta(words)


class Ahead:
    """A lean stream whose next chunk can be looked at: the library's `PeekableAsyncStream` for one reader, who closes
    it. That one takes a lock, opens a scope and gives way to everybody else for every chunk."""

    def __init__(self, source: LeanStream[ChatCompletionChunk]) -> None:
        self.source = source
        self._data = source.data()
        self._next: Json | Unset = UNSET
        self._over = False
        self._error: Exception | None = None

    def __aiter__(self) -> Ahead:
        return self

    async def __anext__(self) -> ChatCompletionChunk:
        chunk = await self.chunk()
        if chunk is None:
            raise StopAsyncIteration
        self.skip()
        return chunk

    async def chunk(self) -> ChatCompletionChunk | None:
        """The next one; None at the end."""
        data = await self.peek()
        return None if isinstance(data, Unset) else self.source.made(data)

    async def peek(self) -> Json | Unset:
        """The next one as it came."""
        if self._error is not None:
            raise self._error
        if isinstance(self._next, Unset) and not self._over:
            try:
                self._next = await anext(self._data)
            except StopAsyncIteration:
                self._over = True
            except Exception as error:
                self._error = error
                raise
        return self._next

    def skip(self) -> None:
        self._next = UNSET
