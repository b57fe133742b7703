"""The lean path of OpenAI's SDK: the body posted as it is, the stream read by `lean_stream`. (`/responses` has its own
module, `lean_responses`, which who talks to a chat need not load.)

The SDK walks the whole history on every request to rename fields (`async_maybe_transform`), though pydantic-ai's
messages are in wire form already: nine tenths of what a long conversation costs. `install` replaces `create` of the
two endpoints and the SSE decoder on one client; auth, headers, timeouts, status errors, parsing and closing stay the
SDK's own. A body that JSON cannot take as it is goes the SDK's way. Off with the setting `lean`, or `PILOTFISH_LEAN=0`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

import anyio
import httpx2
import orjson
from openai import AsyncAzureOpenAI, AsyncOpenAI, AsyncStream
from openai._base_client import make_request_options
from openai._models import FinalRequestOptions
from openai._types import NotGiven, Omit
from openai.resources.chat.completions.completions import AsyncCompletions
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic_ai._utils import PeekableAsyncStream
from pydantic_ai.models import Model

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
    client.__dict__["_build_request"] = _with_known_head(client, client._build_request)  # noqa: SLF001  # a hook
    return True


def is_lean(client: object) -> bool:
    return getattr(client, "__dict__", {}).get("_make_sse_decoder") is LeanDecoder


def hasten(model: Model[Any]) -> bool:
    """Spare a model's streams a turn of the event loop for every event. False: its client is not lean.

    The library gives way to everyone else before it takes the next event from the SDK, though the lock it takes for
    that is free: a dozen turns of the loop in every tool round. `LeanDecoder` gives way between slices by itself.
    """
    process: Callable[..., Awaitable[Any]] | None = getattr(model, "_process_streamed_response", None)
    if process is None or not is_lean(getattr(model, "client", None)):
        return False

    async def processed(*args: Any, **options: Any) -> Any:
        streamed = await process(*args, **options)
        source: object = getattr(streamed, "_response", None)
        if isinstance(source, PeekableAsyncStream):
            source._source_lock = anyio.Lock(fast_acquire=True)  # noqa: SLF001  # the only way to it; free, as nobody has the stream yet
        return streamed

    vars(model)["_process_streamed_response"] = processed
    return True


def _by_hand(process: Callable[..., Any]) -> Callable[..., Any]:
    """Chunks of the usual shape made by `lean_chunks`, everything else as before."""

    def processed(*, data: object, cast_to: Any, response: Any) -> Any:
        made = chunk(data) if cast_to is ChatCompletionChunk else None
        return process(data=data, cast_to=cast_to, response=response) if made is None else made

    return processed


def _with_known_head(client: AsyncOpenAI, build: Callable[..., httpx2.Request]) -> Callable[..., httpx2.Request]:
    """Requests whose address and headers the SDK made before, for another body.

    It parses the address four times and the headers three times for each. Both depend on the key and on what is asked
    for here, and on nothing else that changes in a client of ours; cookies, the length and the body are each request's
    own.
    """
    known: dict[tuple[object, ...], _Head] = {}

    def built(options: FinalRequestOptions, *, retries_taken: int = 0) -> httpx2.Request:
        if (
            not isinstance(options.content, bytes)
            or not isinstance(options.timeout, NotGiven)
            or options.params
            or not isinstance(options.headers, Mapping)
        ):
            return build(options, retries_taken=retries_taken)
        key = (options.method, options.url, retries_taken, client.api_key, *options.headers.items())
        head = known.get(key)
        if head is None or head.base is not client.base_url:
            made = build(options, retries_taken=retries_taken)
            known.clear()  # another key, another place: the last ones are not used again
            known[key] = _Head(client.base_url, made)
            return made
        return httpx2.Request(
            options.method,
            head.url,
            headers=head.headers,
            cookies=client._client.cookies,  # noqa: SLF001  # as the SDK does: the jar is the HTTP client's
            content=options.content,
            extensions=head.extensions,
        )

    return built


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
    """A stream that is left early stops its decoder's reading at once, not when it is collected."""

    async def close(self) -> None:
        if isinstance(self._decoder, LeanDecoder):
            await self._decoder.stop()
        await super().close()


class LeanCompletions(AsyncCompletions):
    """`POST /chat/completions` with the body as it is."""

    async def create(self, **params: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # the SDK names 40
        body = raw_body(params)
        if body is None:
            return cast(Any, await super().create(**params))
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


def options(params: Mapping[str, Any]) -> Any:
    headers = {"Content-Type": "application/json", **cast("Mapping[str, str]", params.get("extra_headers") or {})}
    return make_request_options(
        extra_headers=headers,
        extra_query=params.get("extra_query"),
        timeout=params.get("timeout", NotGiven()),
        security={"bearer_auth": True},
    )
