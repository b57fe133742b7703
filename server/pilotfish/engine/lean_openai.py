"""The lean path of OpenAI's SDK: the body posted as it is, the stream read by `lean_stream`. (`/responses` has its own
module, `lean_responses`, which who talks to a chat need not load.)

The SDK walks the whole history on every request to rename fields (`async_maybe_transform`), though pydantic-ai's
messages are in wire form already: nine tenths of what a long conversation costs. `install` replaces `create` of the
two endpoints and the SSE decoder on one client; auth, headers, timeouts, status errors, parsing and closing stay the
SDK's own. A body that JSON cannot take as it is goes the SDK's way. Off with the setting `lean`, or `PILOTFISH_LEAN=0`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar, cast

import anyio
import httpx2
import orjson
from openai import APIConnectionError, APIError, APITimeoutError, AsyncAzureOpenAI, AsyncOpenAI, AsyncStream
from openai._base_client import make_request_options
from openai._httpx2 import request_exceptions, timeout_exceptions
from openai._models import FinalRequestOptions
from openai._types import NotGiven, Omit
from openai.resources.chat.completions.completions import AsyncCompletions
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic_ai._utils import PeekableAsyncStream
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel

from pilotfish.engine.http import Client, body_of
from pilotfish.engine.lean_chat import processor
from pilotfish.engine.lean_chunks import chunk
from pilotfish.engine.lean_stream import LeanDecoder

T = TypeVar("T")


def install(client: object) -> bool:
    """Make a client lean. False: it is not one of the SDK's plain clients, and was left alone.

    Azure's client finds the deployment in the parsed body, so it needs the SDK's way.
    """
    if not isinstance(client, AsyncOpenAI) or isinstance(client, AsyncAzureOpenAI):
        return False
    # A cached property: what stands in the instance is what the SDK gives out.
    client.chat.__dict__["completions"] = LeanCompletions(client)
    client.__dict__["_make_sse_decoder"] = LeanDecoder
    client.__dict__["_process_response_data"] = _by_hand(client._process_response_data)  # noqa: SLF001  # a hook
    client.__dict__["_build_request"] = Heads(client).build
    return True


def is_lean(client: object) -> bool:
    return getattr(client, "__dict__", {}).get("_make_sse_decoder") is LeanDecoder


def hasten(model: Model[Any]) -> bool:
    """Read a model's streams without locks. False: its client is not lean.

    The library guards a stream against readers that leave it in the middle of an event: a lock and a scope for every
    event, and a turn of the event loop before each. Ours has one reader, who closes it.
    """
    process: Callable[..., Awaitable[Any]] | None = getattr(model, "_process_streamed_response", None)
    if process is None or not is_lean(getattr(model, "client", None)):
        return False
    quick = processor(model) if type(model) is OpenAIChatModel else None

    async def processed(response: object, *args: Any, **options: Any) -> Any:
        if quick is not None and isinstance(response, LeanStream):
            return await quick(response, *args, **options)
        streamed = await process(response, *args, **options)
        source: object = getattr(streamed, "_response", None)
        if isinstance(source, PeekableAsyncStream):
            source._source_lock = anyio.Lock(fast_acquire=True)  # noqa: SLF001  # no other way to a lock that does not give way each time; nobody holds it yet
        return streamed

    vars(model)["_process_streamed_response"] = processed
    return True


def _by_hand(process: Callable[..., Any]) -> Callable[..., Any]:
    """Chunks of the usual shape made by `lean_chunks`, everything else as before."""

    def processed(*, data: object, cast_to: Any, response: Any) -> Any:
        made = chunk(data) if cast_to is ChatCompletionChunk else None
        return process(data=data, cast_to=cast_to, response=response) if made is None else made

    return processed


class Heads:
    """Requests that differ in nothing but the body from one that the SDK has made.

    It parses the address four times and the headers three times for each, copies the options twice, and looks at the
    answer through three more objects. Address and headers depend on the key and on what is asked for here, and on
    nothing else that changes in a client of ours; cookies, the length and the body are each request's own.
    """

    def __init__(self, client: AsyncOpenAI) -> None:
        self._client = client
        self._build = client._build_request  # noqa: SLF001  # a hook
        self._known: dict[tuple[object, ...], _Head] = {}

    def build(self, options: FinalRequestOptions, *, retries_taken: int = 0) -> httpx2.Request:
        """In place of the SDK's `_build_request`."""
        if (
            options.method.lower() != "post"
            or not isinstance(options.content, bytes)
            or not isinstance(options.timeout, NotGiven)
            or options.params
            or retries_taken
            or not isinstance(options.headers, Mapping)
        ):
            return self._build(options, retries_taken=retries_taken)
        if (known := self._request(options.url, options.headers, options.content)) is not None:
            return known
        made = self._build(options)
        self._known.clear()  # another key, another place: the last ones are not used again
        self._known[self._key(options.url, options.headers)] = _Head(self._client.base_url, made)
        return made

    async def stream(self, path: str, params: Mapping[str, Any], body: bytes) -> httpx2.Response | None:
        """The answer to a request of which all but the body is known; raises what the SDK raises. None: the SDK has to
        make it, for the first time, or because it signs or repeats its requests."""
        client = self._client
        if (
            not params.get("stream")
            or client.max_retries
            or client.custom_auth is not None
            or any(getattr(client, name) is not None for name in _SIGNERS)
            or params.get("extra_query")
            or not isinstance(params.get("timeout", NotGiven()), NotGiven)
        ):
            return None
        request = self._request(path, request_headers(params), body)
        if request is None:
            return None
        http = client._client  # noqa: SLF001  # in place of the SDK, which sends with it; it has no public name
        try:
            response = await (http.stream_of(request) if isinstance(http, Client) else http.send(request, stream=True))
        except timeout_exceptions() as error:
            raise APITimeoutError(request=request) from error
        except request_exceptions() as error:
            raise APIConnectionError(request=request) from error
        if not response.is_success:
            await response.aread()
            raise client._make_status_error_from_response(response) from None  # noqa: SLF001  # as the SDK does
        return response

    def _request(self, path: str, headers: Mapping[str, Any], body: bytes) -> httpx2.Request | None:
        head = self._known.get(self._key(path, headers))
        if head is None or head.base is not self._client.base_url:
            return None
        made = httpx2.Request(
            "POST",
            head.url,
            headers=head.headers,
            cookies=self._client._client.cookies,  # noqa: SLF001  # as the SDK does: the jar is the HTTP client's
            stream=httpx2.ByteStream(body),  # not `content`: all headers but one are there
            extensions=head.extensions,
        )
        made.headers.encoding = head.headers.encoding  # else it is found out again
        made.headers["Content-Length"] = str(len(body))
        made.read()
        return made

    def _key(self, path: str, headers: Mapping[str, Any]) -> tuple[object, ...]:
        return (path, self._client.api_key, *headers.items())


_SIGNERS = ("_api_key_provider", "_workload_identity_auth", "_provider_runtime")
"""attributes of the SDK's client that make a request more than its head and its body"""


class _Head:
    """What a request has beside its body."""

    __slots__ = ("base", "extensions", "headers", "url")

    def __init__(self, base: httpx2.URL, request: httpx2.Request) -> None:
        self.base = base
        self.url = request.url
        self.headers = request.headers.copy()
        for own in ("Content-Length", "Cookie"):
            self.headers.pop(own, None)
        self.extensions = {**request.extensions}


class LeanStream(AsyncStream[T]):
    """The SDK's stream with one generator instead of four. One that is left early stops its decoder's reading at once,
    not when it is collected."""

    def __aiter__(self) -> AsyncIterator[T]:  # pyright: ignore[reportIncompatibleMethodOverride]  # the SDK makes another generator
        return self._iterator

    def __stream__(self) -> AsyncIterator[T]:  # pyright: ignore[reportIncompatibleMethodOverride]  # an iterator does, and a generator is what we save
        return _Made(self.data(), self.made)

    def made(self, data: Any) -> T:
        """The SDK's object of an event."""
        cast_to = cast("Any", self._cast_to)
        return cast("T", self._client._process_response_data(data=data, cast_to=cast_to, response=self.response))  # noqa: SLF001  # what the SDK's own stream calls

    async def data(self) -> AsyncGenerator[Any]:
        """The events as JSON. Raises what the SDK raises."""
        response = self.response
        events = cast("LeanDecoder", self._decoder).aiter_bytes(body_of(response))
        try:
            async for event in events:
                if event.data.startswith("[DONE]"):
                    break
                data = event.json()
                if (error := _error_in(data, response.request)) is not None:
                    raise error
                yield data
        except timeout_exceptions() as error:
            raise APITimeoutError(request=response.request) from error
        except request_exceptions() as error:
            raise APIConnectionError(request=response.request) from error
        finally:
            await events.aclose()
            await response.aclose()

    async def close(self) -> None:
        if isinstance(self._decoder, LeanDecoder):
            await self._decoder.stop()
        await super().close()


class _Made(Generic[T]):
    """What is made of each item of a generator."""

    def __init__(self, items: AsyncGenerator[Any], make: Callable[[Any], T]) -> None:
        self._items = items
        self._make = make

    def __aiter__(self) -> _Made[T]:
        return self

    async def __anext__(self) -> T:
        return self._make(await anext(self._items))

    async def aclose(self) -> None:
        await self._items.aclose()


def _error_in(data: object, request: httpx2.Request) -> APIError | None:
    """What the SDK makes of an error inside a stream."""
    error = _field(data, "error")
    if not error:
        return None
    message = _field(error, "message")
    said = message if isinstance(message, str) and message else "An error occurred during streaming"
    return APIError(message=said, request=request, body=error)


def _field(value: object, name: str) -> object:
    return cast("dict[str, object]", value).get(name) if isinstance(value, dict) else None


class LeanCompletions(AsyncCompletions):
    """`POST /chat/completions` with the body as it is."""

    async def create(self, **params: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # the SDK names 40
        body = raw_body(params)
        if body is None:
            return cast(Any, await super().create(**params))
        if response := await answer(self._client, "/chat/completions", params, body):
            return LeanStream(cast_to=ChatCompletionChunk, response=response, client=self._client)
        return await self._post(
            "/chat/completions",
            content=body,
            options=options(params),
            cast_to=ChatCompletion,
            stream=bool(params.get("stream")),
            stream_cls=LeanStream[ChatCompletionChunk],
        )


_OPTIONS = frozenset({"extra_headers", "extra_query", "extra_body", "timeout"})


def raw_body(params: Mapping[str, Any]) -> bytes | None:
    """The request's body. None: it holds something that is not JSON yet, which is the SDK's business."""
    body = {name: value for name, value in params.items() if name not in _OPTIONS}
    extra = params.get("extra_body")
    if isinstance(extra, Mapping):
        body |= cast("Mapping[str, Any]", extra)  # over the rest and one level deep, as the SDK merges it
    try:
        return orjson.dumps({name: value for name, value in body.items() if not isinstance(value, Omit | NotGiven)})
    except TypeError:  # objects, generators, lone surrogates, numbers beyond 64 bits
        return None


async def answer(client: AsyncOpenAI, path: str, params: Mapping[str, Any], body: bytes) -> httpx2.Response | None:
    """The answer without the SDK, where that is possible: see `Heads.stream`."""
    heads: object = getattr(client.__dict__.get("_build_request"), "__self__", None)
    return await heads.stream(path, params, body) if isinstance(heads, Heads) else None


def request_headers(params: Mapping[str, Any]) -> dict[str, Any]:
    return {"Content-Type": "application/json", **cast("Mapping[str, str]", params.get("extra_headers") or {})}


def options(params: Mapping[str, Any]) -> Any:
    return make_request_options(
        extra_headers=request_headers(params),
        extra_query=params.get("extra_query"),
        timeout=params.get("timeout", NotGiven()),
        security={"bearer_auth": True},
    )
