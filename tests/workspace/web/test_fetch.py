from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pilotfish.errors import Refused, ToolError
from pilotfish.workspace.web.fetch import Elsewhere, WebPage, fetch, is_public

Reply = Callable[[str], bytes | None]


@asynccontextmanager
async def site(reply: Reply) -> AsyncGenerator[str]:
    """A web server on loopback; `reply` gives the whole response for a path, or None to say nothing for ever."""
    handlers: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        answer = reply(request.split()[1].decode())
        if answer is None:
            await reader.read()
        else:
            with contextlib.suppress(ConnectionError):
                writer.write(answer)
                await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.add(asyncio.ensure_future(serve(reader, writer)))

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await asyncio.gather(*handlers)


def response(body: bytes, content_type: str = "text/html", status: str = "200 OK", extra: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n{extra}"
    return head.encode() + b"Connection: close\r\n\r\n" + body


async def page(reply: bytes, path: str = "/") -> WebPage:
    async with site(lambda _: reply) as address:
        got = await fetch(address + path, local_network=True)
    assert isinstance(got, WebPage)
    return got


async def test_a_page_is_fetched() -> None:
    got = await page(response(b"<h1>Hi</h1>"))
    assert (got.status, got.content_type, got.text, got.is_html, got.cut) == (
        200,
        "text/html",
        "<h1>Hi</h1>",
        True,
        False,
    )


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.215.14", True),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1", False),
        ("fe80::1%eth0", False),
        ("fc00::1", False),
        ("fec0::1", False),
        ("ff02::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:93.184.215.14", True),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
        ("2001:0:4136:e378:8000:63bf:80ff:fffe", False),
    ],
)
def test_only_the_public_internet_is_public(address: str, public: bool) -> None:
    assert is_public(address) is public


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254"],
)
async def test_this_machine_is_not_reached_under_any_name(host: str) -> None:
    with pytest.raises(Refused, match="private network"):
        await fetch(f"http://{host}:1/")


def resolve_to(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> None:
    """Each lookup gives the next answer."""
    queue = list(answers)

    async def getaddrinfo(self: Any, host: str, port: int, **_: Any) -> list[Any]:
        del self, host
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in queue.pop(0)]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)


async def test_one_private_address_among_public_ones_is_enough_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, ["93.184.215.14", "10.0.0.1"])
    with pytest.raises(Refused, match=r"example\.com is 10\.0\.0\.1"):
        await fetch("http://example.com/")


async def test_the_address_that_was_checked_is_the_one_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that resolves to something else a moment later gains nothing by it."""
    import httpcore2

    resolve_to(monkeypatch, ["93.184.215.14"], ["127.0.0.1"])
    connected: list[str] = []

    async def connect_tcp(self: Any, host: str, *_: Any, **__: Any) -> Any:
        del self
        connected.append(host)
        raise httpcore2.ConnectError("not from a test")

    monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", connect_tcp)
    with pytest.raises(ToolError, match="not from a test"):
        await fetch("http://example.com/")
    assert connected == ["93.184.215.14"]


async def test_a_redirect_on_the_site_is_followed() -> None:
    def reply(path: str) -> bytes:
        if path == "/old":
            return response(b"", status="302 Found", extra="Location: /new\r\n")
        return response(path.encode(), "text/plain")

    async with site(reply) as address:
        got = await fetch(f"{address}/old", local_network=True)
    assert isinstance(got, WebPage)
    assert (got.text, got.url) == ("/new", f"{address}/new")


async def test_a_redirect_to_another_site_is_handed_back() -> None:
    moved = response(b"", status="301 Moved", extra="Location: https://example.com/there\r\n")
    async with site(lambda _: moved) as address:
        assert await fetch(address, local_network=True) == Elsewhere("https://example.com/there")


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "ftp://example.com/", "http://user:pw@127.0.0.1/", "javascript:1"]
)
async def test_a_redirect_to_what_is_no_web_address_is_refused(target: str) -> None:
    moved = response(b"", status="302 Found", extra=f"Location: {target}\r\n")
    async with site(lambda _: moved) as address:
        with pytest.raises(ToolError):
            await fetch(address, local_network=True)


async def test_a_ring_of_redirects_ends() -> None:
    moved = response(b"", status="302 Found", extra="Location: /again\r\n")
    async with site(lambda _: moved) as address:
        with pytest.raises(ToolError, match="more than 5 times"):
            await fetch(address, local_network=True)


@pytest.mark.parametrize("url", ["", "nonsense", "file:///etc/passwd", "http://", "ftp://example.com/x", "http://[::1"])
async def test_what_is_no_web_address_is_said_so(url: str) -> None:
    with pytest.raises(ToolError, match=r"URL|web address"):
        await fetch(url)


async def test_a_password_in_an_address_is_refused() -> None:
    with pytest.raises(Refused, match="user name or password"):
        await fetch("https://user:secret@example.com/")


async def test_a_long_body_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pilotfish.workspace.web.fetch.MAX_BYTES", 1000)
    got = await page(response(b"x" * 5000, "text/plain"))
    assert (len(got.text), got.cut) == (1000, True)


async def test_a_compressed_body_is_bounded_by_what_it_unpacks_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pilotfish.workspace.web.fetch.MAX_BYTES", 100_000)
    bomb = gzip.compress(b"x" * 50_000_000)
    got = await page(response(bomb, "text/plain", extra="Content-Encoding: gzip\r\n"))
    assert (len(got.text), got.cut) == (100_000, True)


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        (b"caf\xe9", "text/plain; charset=latin-1", "café"),
        (b"caf\xe9", "text/plain", "café"),
        ("café".encode(), "text/plain", "café"),
        (b"<meta charset='cp1251'>\xcf\xf0", "text/html", "<meta charset='cp1251'>Пр"),
        ("é".encode("utf-16"), "text/plain", "é"),
        (b"\xef\xbb\xbfhi", "text/plain", "hi"),
        (b"hi", "text/plain; charset=zip", "hi"),
        (b"hi", "text/plain; charset=no-such", "hi"),
        (b'{"a": 1}', "application/vnd.api+json", '{"a": 1}'),
        (b"plain", "application/octet-stream", "plain"),
    ],
)
async def test_text_is_read_in_its_encoding(body: bytes, content_type: str, text: str) -> None:
    assert (await page(response(body, content_type))).text == text


@pytest.mark.parametrize(
    ("body", "content_type"),
    [(b"\x89PNG\r\n\x1a\n\0", "image/png"), (b"%PDF-1.4\0\xff", "application/octet-stream"), (b"x", "application/zip")],
)
async def test_what_is_not_text_is_refused_kindly(body: bytes, content_type: str) -> None:
    with pytest.raises(ToolError, match="not text; bash can download it"):
        await page(response(body, content_type))


async def test_an_error_page_is_a_page_with_its_status() -> None:
    got = await page(response(b"no such thing", "text/plain", status="404 Not Found"))
    assert (got.status, got.text) == (404, "no such thing")


async def test_a_silent_server_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pilotfish.workspace.web.fetch.MAX_SECONDS", 0.1)
    async with site(lambda _: None) as address:
        with pytest.raises(ToolError, match="did not answer"):
            await fetch(address, local_network=True)


async def test_a_server_that_hangs_up_is_said_so() -> None:
    async with site(lambda _: b"") as address:
        with pytest.raises(ToolError, match="could not be fetched"):
            await fetch(address, local_network=True)


async def test_nobody_listening_is_said_so() -> None:
    with pytest.raises(ToolError, match="could not be fetched"):
        await fetch("http://127.0.0.1:9/", local_network=True)


async def test_an_unknown_name_is_said_so() -> None:
    with pytest.raises(ToolError, match="could not be fetched"):
        await fetch("http://no-such-host.invalid/")
