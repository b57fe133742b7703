"""Sends the request bodies of OpenAI's Responses API unchanged, like `openai_client.py` those of its Chat API.

A separate module, because the SDK loads what belongs to this API (50 ms, 5 MB) only for a client that uses it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from openai import AsyncOpenAI, AsyncStream, BadRequestError
from openai.resources.responses import AsyncResponses
from openai.types.responses import Response, ResponseStreamEvent

from pilotfish.engine.model.wire.openai_client import split_options


def send_responses_unchanged(client: AsyncOpenAI) -> None:
    """Replace the resource of a client that sends requests, as `send_chat_unchanged` does."""
    with contextlib.suppress(AttributeError):
        setattr(client, "responses", PlainResponses(client))  # noqa: B010  # a cached property, see there


class PlainResponses(AsyncResponses):
    """`POST /responses`. Summaries of reasoning are left out once the account turns out not to get them."""

    def __init__(self, client: AsyncOpenAI) -> None:
        super().__init__(client)
        self._plain_client = client
        self._has_summaries = True

    async def create(self, **params: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # the SDK names 40
        try:
            return await self._post_body(params)
        except BadRequestError as error:
            if not self._has_summaries or error.param != "reasoning.summary":
                raise
            self._has_summaries = False
            return await self._post_body(params)

    async def _post_body(self, params: Mapping[str, Any]) -> Any:
        body, options = split_options(params)
        if not self._has_summaries and "reasoning" in body:
            body["reasoning"] = {name: value for name, value in body["reasoning"].items() if name != "summary"}
        return await self._plain_client.post(
            "/responses",
            body=body,
            options=options,
            cast_to=Response,
            stream=bool(params.get("stream")),
            stream_cls=AsyncStream[ResponseStreamEvent],
        )
