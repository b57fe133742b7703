"""The proxy through which a confined command reaches the hosts it is allowed, and no other.

One proxy serves one command, on a Unix socket that only its sandbox sees (`bridge.py` is the other end). It passes on
`CONNECT` and plain HTTP requests. Promises: a connection goes only to a host and port of the allow-list; a public name
never leads to an address of this machine or its network; every refused host is recorded, so that the user can be
asked about exactly that host. It does not look into TLS: a host that serves other names serves them here too.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from pilotfish.policy.hosts import local_address

EVERY_HOST = "*"
WEB_PORTS = frozenset({80, 443})
MAX_HEAD = 64 << 10
HEAD_SECONDS = 30.0
CONNECT_SECONDS = 20.0
CHUNK = 1 << 16
MAX_REFUSED = 20
MAX_CONNECTIONS = 128
_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?", re.IGNORECASE)
_METHOD = re.compile(r"[A-Z]+")
_FIELD = re.compile(r"[\w!#$%&'*+.^`|~-]+:[^\r\n]*", re.ASCII)
"""a header field; servers differ in how they read anything else"""


def reaches(hosts: Sequence[str], host: str, port: int) -> bool:
    """Whether the allow-list has this host. Without a port an entry means the ports of the web."""
    return any(_covers(entry, host.lower().rstrip("."), port) for entry in hosts)


def _covers(entry: str, host: str, port: int) -> bool:
    if entry == EVERY_HOST:
        return True
    name, wanted = _split(entry, 0)
    if port != wanted if wanted else port not in WEB_PORTS:
        return False
    return host.endswith(name[1:].lower()) if name.startswith("*.") else host == name.lower()


def _split(authority: str, port: int) -> tuple[str, int]:
    """`host:port` as two; IPv6 addresses are in brackets. Raises ValueError."""
    host, colon, number = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        host, number = authority, str(port)
    if not number.isdecimal() or not 0 <= int(number) < 1 << 16:
        raise ValueError(authority)
    return host.removeprefix("[").removesuffix("]"), int(number)


class Proxy:
    """Serves one command from `start` to `close`."""

    def __init__(self, path: Path, hosts: Sequence[str]) -> None:
        self.path = path
        self.refused: list[str] = []
        """hosts the command asked for in vain"""
        self._hosts = tuple(hosts)
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._accept, self.path, limit=MAX_HEAD)

    def close(self) -> None:
        """End every connection."""
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        self.path.unlink(missing_ok=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._serving) >= MAX_CONNECTIONS:
            writer.close()
            return
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            try:
                async with asyncio.timeout(HEAD_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                await self._answer(head.decode("latin-1"), reader, writer)
            finally:
                writer.close()

    async def _answer(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line, _, fields = head.partition("\r\n")
        try:
            method, target, _ = line.split(" ")
            host, port, first = _request(method, target, fields)
        except ValueError:
            return _say(writer, 400, "the proxy takes CONNECT and requests for http:// addresses")
        if not reaches(self._hosts, host, port):
            return self._refuse(writer, host, port, "the network is off for this command")
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                address = await _address(host, port)
                if address is None:
                    return self._refuse(writer, host, port, "its address is on this machine or the local network")
                far_reader, far_writer = await asyncio.open_connection(address, port)
        except (OSError, TimeoutError) as error:
            return _say(writer, 502, f"{host}:{port} could not be reached: {error or type(error).__name__}")
        try:
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            far_writer.write(first)
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(reader, far_writer))
                both.create_task(_copy(far_reader, writer))
        finally:
            far_writer.close()
        return None

    def _refuse(self, writer: asyncio.StreamWriter, host: str, port: int, why: str) -> None:
        name = f"[{host}]" if ":" in host else host
        entry = name if port in WEB_PORTS else f"{name}:{port}"
        if entry not in self.refused and len(self.refused) < MAX_REFUSED:
            self.refused.append(entry)
        _say(writer, 403, f"Pilotfish refused {entry}: {why}")


def _request(method: str, target: str, fields: str) -> tuple[str, int, bytes]:
    """Host and port of a request, and what is sent there first. Raises ValueError."""
    if method == "CONNECT":
        host, port = _split(target, 443)
        return _checked(host), port, b""
    parts = urlsplit(target)
    given = list(filter(None, fields.split("\r\n")))
    if parts.scheme != "http" or not _METHOD.fullmatch(method) or not all(map(_FIELD.fullmatch, given)):
        raise ValueError(target)
    host, port = _split(parts.netloc.rpartition("@")[2], 80)
    # One request for each connection: a second one could be for another host.
    dropped = ("host:", "connection:", "proxy-connection:", "keep-alive:", "proxy-authorization:")
    kept = [field for field in given if not field.lower().startswith(dropped)]
    path = parts._replace(scheme="", netloc="", path=parts.path or "/").geturl()
    lines = [f"{method} {path} HTTP/1.1", f"Host: {parts.netloc.rpartition('@')[2]}", "Connection: close", *kept]
    return _checked(host), port, ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _checked(host: str) -> str:
    """A name or an address, and nothing that a resolver reads in another way than the allow-list. Raises ValueError."""
    if not _NAME.fullmatch(host) and ("%" in host or not ipaddress.ip_address(host)):
        raise ValueError(host)
    return host.lower()


async def _address(host: str, port: int) -> str | None:
    """Where a host is. None if a public name leads to this machine or its network."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    if local_address(host) is None and any(local_address(address) for address in addresses):
        return None
    return addresses[0]


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


def _say(writer: asyncio.StreamWriter, status: int, words: str) -> None:
    body = f"{words}\n".encode()
    reason = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway"}[status]
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
