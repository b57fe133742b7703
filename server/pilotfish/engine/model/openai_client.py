"""Sends request bodies of OpenAI's two APIs unchanged.

The SDK rewrites the whole history on every request to rename fields (nine tenths of the CPU of a long conversation),
although pydantic-ai's messages already have the field names of the API. The resources below post the body through the
SDK's public `post`, which is meant for endpoints that the SDK does not know. Authentication, headers, timeouts,
errors, streams and parsing stay the SDK's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, cast

from openai import AsyncOpenAI, AsyncStream, NotGiven, Omit, RequestOptions
from openai.resources.chat.completions import AsyncCompletions
from openai.resources.responses import AsyncResponses
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent


def send_bodies_unchanged(client: AsyncOpenAI) -> None:
    """Replace the two resources of a client that send requests.

    The client is the one that a pydantic-ai provider created, because each provider sets its own address, headers and
    authentication. The resources are cached properties, which can be assigned although the SDK's types forbid it.
    """
    with contextlib.suppress(AttributeError):  # if that changes, the SDK's slower resources are used
        setattr(client.chat, "completions", PlainCompletions(client))  # noqa: B010  # see the docstring
        setattr(client, "responses", PlainResponses(client))  # noqa: B010  # see the docstring


class PlainCompletions(AsyncCompletions):
    """`POST /chat/completions`."""

    def __init__(self, client: AsyncOpenAI) -> None:
        super().__init__(client)
        self._plain_client = client

    async def create(self, **params: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # the SDK names 40
        body, options = _split(params)
        return await self._plain_client.post(
            "/chat/completions",
            body=body,
            options=options,
            cast_to=ChatCompletion,
            stream=bool(params.get("stream")),
            stream_cls=AsyncStream[ChatCompletionChunk],
        )


class PlainResponses(AsyncResponses):
    """`POST /responses`."""

    def __init__(self, client: AsyncOpenAI) -> None:
        super().__init__(client)
        self._plain_client = client

    async def create(self, **params: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # the SDK names 40
        body, options = _split(params)
        return await self._plain_client.post(
            "/responses",
            body=body,
            options=options,
            cast_to=Response,
            stream=bool(params.get("stream")),
            stream_cls=AsyncStream[ResponseStreamEvent],
        )


def _split(params: Mapping[str, Any]) -> tuple[dict[str, Any], RequestOptions]:
    """The body of a request and its options."""
    body = {name: value for name, value in params.items() if not isinstance(value, NotGiven | Omit)}
    options: RequestOptions = {"security": {"bearer_auth": True}}
    if headers := body.pop("extra_headers", None):
        options["headers"] = headers
    if query := body.pop("extra_query", None):
        options["params"] = query
    if extra := body.pop("extra_body", None):
        options["extra_json"] = cast("Mapping[str, object]", extra)
    if "timeout" in body:
        options["timeout"] = body.pop("timeout")
    return body, options
