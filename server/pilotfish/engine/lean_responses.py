"""The lean path of OpenAI's Responses endpoint: see `lean_openai`."""

from __future__ import annotations

from typing import Any, cast

from openai import AsyncOpenAI
from openai.resources.responses.responses import AsyncResponses
from openai.types.responses import Response, ResponseStreamEvent

from pilotfish.engine.lean_openai import LeanStream, answer, is_lean, options, raw_body


def install(client: AsyncOpenAI) -> bool:
    """Make a client that is lean already (`lean_openai.install`) lean here too. False: it is not."""
    if not is_lean(client):
        return False
    client.__dict__["responses"] = LeanResponses(client)
    return True


class LeanResponses(AsyncResponses):
    """`POST /responses` with the body as it is."""

    async def create(self, **params: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # the SDK names 40
        body = raw_body(params)
        if body is None:
            return cast(Any, await super().create(**params))
        if response := await answer(self._client, "/responses", params, body):
            return LeanStream(cast_to=cast(Any, ResponseStreamEvent), response=response, client=self._client)
        return await self._post(
            "/responses",
            content=body,
            options=options(params),
            cast_to=Response,
            stream=bool(params.get("stream")),
            stream_cls=LeanStream[ResponseStreamEvent],
        )
