"""What stands around one command of the workspace sandbox, and what it refused the command.

A refusal is reported so that the user can be asked for exactly what was refused. The hosts are exact where a program
used the proxy. Everything else is read from the command's own error messages, which know of no sandbox: a path counts
only if the sandbox really kept it from being written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pilotfish.workspace.sandbox.inner_repositories import block_repositories
from pilotfish.workspace.sandbox.protected import MASKS, block_changes
from pilotfish.workspace.sandbox.proxy import EVERY_HOST, Proxy
from pilotfish.workspace.sandbox.sandbox import Room

OUTPUT_TAIL = 16_000
"""characters at the end of the output that are searched"""
MAX_PATHS = 10
NO_NETWORK = re.compile(
    r"network is (?:unreachable|down)|name resolution|name or service not known|could not resolve|couldn't resolve"
    r"|getaddrinfo|EAI_AGAIN|ENOTFOUND|ENETUNREACH|no address associated|unknown host|no route to host"
    r"|dial tcp: lookup|dns error|failed to lookup address|UnknownHostException|network access is denied",
    re.IGNORECASE,
)
NO_WRITING = re.compile(
    r"read-only file system|EROFS|permission denied|EACCES|resource busy|EBUSY|is a directory|file exists",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"['\"‘`]([^'\"’`\n]{1,400})['\"’`]")
_BARE = re.compile(r"(?:^|[\s:(])((?:~|\.{1,2})?/?[\w.@+-]+(?:/[\w.@+-]+)*/?)(?=[:\s)]|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """What a sandbox refused. Nothing, if all is empty."""

    network: bool = False
    """the command looked for the network and did not have it"""
    hosts: tuple[str, ...] = ()
    """the hosts it named, in the form of the allow-list; none if it did not use the proxy"""
    paths: tuple[Path, ...] = ()
    """what it could not write: outside the workspace, or protected"""

    def __bool__(self) -> bool:
        return self.network or bool(self.paths)

    @property
    def words(self) -> str:
        """for the model and for people"""
        parts: list[str] = []
        if self.network:
            parts.append(f"the network ({', '.join(self.hosts)})" if self.hosts else "the network")
        if self.paths:
            parts.append("writing " + ", ".join(map(str, self.paths)))
        return "the sandbox refused " + " and ".join(parts) if parts else ""


NOTHING_DENIED = Denied()


class Confinement:
    """What was put up around one command, and is taken down when it has ended."""

    def __init__(
        self, room: Room | None = None, proxy: Proxy | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        self.room = room
        self.proxy = proxy
        self._environ = environ or {}
        """of git, which is asked about repositories that the command made"""
        self.notes: tuple[str, ...] = ()
        self._is_up = False

    def put_up(self) -> None:
        """Blocking: see `Masks.put`."""
        if self.room is not None:
            MASKS.put(self.room.protection)
            self._is_up = True

    def end(self) -> None:
        """Once; nothing happens the second time."""
        if self.proxy is not None:
            self.proxy.close()
        if self.room is not None and self._is_up:
            self._is_up = False
            MASKS.lift(self.room.protection)
            protection = self.room.protection
            self.notes = (*block_changes(protection), *block_repositories(protection, self._environ))

    def hidden_note(self, code: int | None) -> tuple[str, ...]:
        """Tells a command that failed which secret files it did not see."""
        if self.room is None or code == 0 or not self.room.hidden:
            return ()
        names = [os.path.relpath(path, self.room.cwd) for path in self.room.hidden]
        more = f" and {len(names) - MAX_PATHS} more" if len(names) > MAX_PATHS else ""
        shown = ", ".join(names[:MAX_PATHS]) + more
        return (f"secret files were empty for this command: {shown}; set for_real to ask the user",)

    def denied(self, output: str, code: int | None) -> Denied:
        """What a command was refused that wrote this output. One that succeeded can only have named hosts in vain."""
        room = self.room
        if room is None:
            return NOTHING_DENIED
        refused = tuple(self.proxy.refused) if self.proxy is not None else ()
        if code == 0:
            return Denied(network=bool(refused), hosts=refused)
        found = find_denials(output, refused, room.cwd, room.may_write)
        return found if EVERY_HOST not in room.hosts else replace(found, network=False)


def find_denials(output: str, refused: Sequence[str], cwd: Path, writable: Callable[[Path], bool]) -> Denied:
    """What a failed command met. `refused` are hosts that the proxy refused; `writable` tells where it may write."""
    tail = output[-OUTPUT_TAIL:]
    paths: dict[Path, None] = {}
    for line in tail.splitlines():
        if NO_WRITING.search(line):
            for word in _QUOTED.findall(line) or _BARE.findall(line):
                place = Path(os.path.normpath(cwd / word))
                if not writable(place):
                    paths[place] = None
    return Denied(
        network=bool(refused) or NO_NETWORK.search(tail) is not None,
        hosts=tuple(refused),
        paths=tuple(paths)[:MAX_PATHS],
    )
