"""Sends the request bodies of OpenAI's Chat API unchanged; `openai_responses.py` does it for the Responses API.

The SDK rewrites the whole history on every request to rename fields (nine tenths of the CPU of a long conversation),
although pydantic-ai's messages already have the field names of the API. A subclass of its resource posts the body
through the SDK's public `post`, which is meant for endpoints that the SDK does not know. Authentication, headers,
timeouts, errors, streams and parsing stay the SDK's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

from openai import AsyncOpenAI, AsyncStream, NotGiven, Omit, RequestOptions
from openai.resources.chat.completions import AsyncCompletions
from openai.types.chat import ChatCompletion, ChatCompletionChunk

OWN_FIELDS = ("prompt_cache_key", "store")
"""fields of OpenAI itself, which other servers of its Chat API may refuse"""


def send_chat_unchanged(client: AsyncOpenAI, *, own_api: bool = True) -> None:
    """Replace the resource of a client that sends requests. `own_api`: the provider is OpenAI itself.

    The client is the one that a pydantic-ai provider created, because each provider sets its own address, headers and
    authentication. The resource is a cached property, which can be assigned although the SDK's types forbid it.
    """
    with contextlib.suppress(AttributeError):  # if that changes, the SDK's slower resource is used
        setattr(client.chat, "completions", PlainCompletions(client, () if own_api else OWN_FIELDS))  # noqa: B010  # see the docstring


class PlainCompletions(AsyncCompletions):
    """`POST /chat/completions`, without the fields `left_out`."""

    def __init__(self, client: AsyncOpenAI, left_out: Sequence[str]) -> None:
        super().__init__(client)
        self._plain_client = client
        self._left_out = left_out

    async def create(self, **params: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # the SDK names 40
        body, options = split_options({name: value for name, value in params.items() if name not in self._left_out})
        return await self._plain_client.post(
            "/chat/completions",
            body=body,
            options=options,
            cast_to=ChatCompletion,
            stream=bool(params.get("stream")),
            stream_cls=AsyncStream[ChatCompletionChunk],
        )


def split_options(params: Mapping[str, Any]) -> tuple[dict[str, Any], RequestOptions]:
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
