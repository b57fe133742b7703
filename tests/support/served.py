"""The real server with a scripted provider, for many tests at once.

    async with served(folder) as rig:
        rig.script("greet", say("Hello"))
        await rig.client.prompt(session, "#greet# please")

A test names its script in its prompt, so that tests which share a server share nothing else.
"""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.client import OURS, Client, connect
from tests.support.provider import Provider, Reply, Request, say, serve


@dataclass
class Scripts:
    """name → the replies that are left of it. `#name#` in a prompt chooses."""

    replies: dict[str, deque[Reply]] = field(default_factory=dict[str, "deque[Reply]"])

    def add(self, name: str, *replies: Reply) -> None:
        self.replies[name] = deque(replies)

    def __call__(self, request: Request) -> Reply:
        said = json.dumps(request.messages)
        named = sorted((said.rfind(f"#{name}#"), name) for name, left in self.replies.items() if left)
        if not named or named[-1][0] < 0:
            return say("Nothing is scripted.")
        return self.replies[named[-1][1]].popleft()


@dataclass(frozen=True)
class Rig:
    client: Client
    provider: Provider
    scripts: Scripts
    folder: Path

    def script(self, name: str, *replies: Reply) -> str:
        """Say what the model does when a prompt holds the name; back comes such a prompt."""
        self.scripts.add(name, *replies)
        return f"#{name}#"


@contextlib.asynccontextmanager
async def served(
    folder: Path, *, hello: Mapping[str, Any] | None = OURS, settings: Mapping[str, Any] | None = None, **more: Any
) -> AsyncGenerator[Rig]:
    """A client of a server whose model is scripted; its environment says so, so that a plain client's is too."""
    scripts = Scripts()
    async with serve(otherwise=scripts) as provider:
        model = {"PILOTFISH_MODEL": "openai-chat:scripted", "PILOTFISH_BASE_URL": provider.openai_url}
        environ: dict[str, Any] = {**model, "OPENAI_API_KEY": "sk-scripted", **more}
        async with connect(folder, hello=hello, settings=settings, **environ) as client:
            yield Rig(client, provider, scripts, folder)
