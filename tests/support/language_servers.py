"""Folders with language servers on PATH: real ones of this environment, or a scripted one that misbehaves.

    async with plain_client(tmp_path, {"a.py": "x = 1\n"}, real("pyright-langserver", "ruff")) as asked:
        assert "..." in await asked.run("diagnostics", path="a.py")

The client is a plain LSP client: it cannot answer for other language servers.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.provider import Provider, call, say
from tests.support.served import Rig, served
from tests.support.tools import plant

FAKE = Path(__file__).with_name("fake_language_server.py")
MachinePrograms = Callable[[Path], None]


def real(*names: str) -> MachinePrograms:
    """Programs of this environment on PATH."""

    def put(folder: Path) -> None:
        for name in names:
            (folder / name).symlink_to(Path(sys.executable).parent / name)

    return put


def fake(behaviour: str, name: str = "pyright-langserver") -> MachinePrograms:
    """The scripted server, under the name of a real one."""

    def put(folder: Path) -> None:
        # Its first line names the interpreter, so that the sandbox shows that.
        source = f"import runpy, sys\nsys.argv[1:] = {[behaviour, str(folder)]}\nrunpy.run_path({str(FAKE)!r})\n"
        (folder / name).write_text(f"#!{sys.executable} -I\n{source}")
        (folder / name).chmod(0o755)

    return put


def search_path(place: Path, programs: MachinePrograms) -> str:
    """A PATH with these programs and those of the system."""
    folder = place / "programs"
    folder.mkdir(exist_ok=True)
    programs(folder)
    return os.pathsep.join([str(folder), "/usr/local/bin", "/usr/bin", "/bin"])


def alive(place: Path) -> list[int]:
    """The processes whose command line names a program below `place`, sandboxes included."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if any(str(place / "programs").encode() in word for word in words):
                found.append(int(entry.name))
    return found


@dataclass
class Asked:
    """A session of a plain client."""

    rig: Rig
    session: str
    numbers: int = 0

    async def run(self, tool: str, **args: Any) -> str:
        """Have the model call a tool; what it was answered."""
        self.numbers += 1
        prompt = self.rig.script(f"call-{self.numbers}", call(tool, **args), say("done"))
        await self.rig.client.prompt(self.session, prompt)
        return last_result(self.rig.provider)

    def offered(self) -> set[str]:
        """The tools that the model was offered last."""
        return {tool["function"]["name"] for tool in self.rig.provider.requests[-1].body["tools"]}


def last_result(provider: Provider) -> str:
    """The newest result of a call that the model was sent."""
    results = [message for message in provider.requests[-1].body["messages"] if message["role"] == "tool"]
    content = results[-1]["content"]
    return content if isinstance(content, str) else json.dumps(content)


def inside(result: str) -> list[str]:
    """The lines of a result, without the tags that mark it as data."""
    return [line for line in result.splitlines() if not line.startswith(("<untrusted-", "</untrusted-"))]


@contextlib.asynccontextmanager
async def plain_client(
    place: Path,
    files: Mapping[str, str],
    programs: MachinePrograms,
    *,
    trusted: bool = True,
    mode: str = "edit",
    config: str = "",
    hello: Mapping[str, Any] | None = None,
    **more: Any,
) -> AsyncGenerator[Asked]:
    work = place / "work"
    work.mkdir(exist_ok=True)
    plant(work, files)
    home = place / "home"
    home.mkdir(exist_ok=True)
    trust = f'\n[workspace."{work}"]\ntrusted = {str(trusted).lower()}\n'
    (home / "config.toml").write_text(config + trust)
    environ: dict[str, Any] = {"PATH": search_path(place, programs), "PILOTFISH_LANGUAGE_SERVERS": "auto", **more}
    async with served(work, hello=hello, home=home, **environ) as rig:
        yield Asked(rig, await rig.client.new_session(mode=mode))
