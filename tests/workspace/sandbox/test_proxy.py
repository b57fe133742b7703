"""The proxy of a confined command: to the hosts of the allow-list, and nowhere else."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pilotfish.workspace.sandbox.proxy import Proxy, reaches


@pytest.mark.parametrize(
    ("hosts", "host", "port", "allowed"),
    [
        ((), "a.org", 443, False),
        (("a.org",), "a.org", 443, True),
        (("a.org",), "A.org.", 80, True),
        (("a.org",), "a.org", 22, False),
        (("a.org:22",), "a.org", 22, True),
        (("a.org:22",), "a.org", 443, False),
        (("a.org",), "b.a.org", 443, False),
        (("a.org",), "xa.org", 443, False),
        (("a.org",), "a.org.evil.net", 443, False),
        (("*.a.org",), "b.a.org", 443, True),
        (("*.a.org",), "c.b.a.org", 443, True),
        (("*.a.org",), "a.org", 443, False),
        (("*.a.org",), "xa.org", 443, False),
        (("*.a.org:8080",), "b.a.org", 8080, True),
        (("[::1]:80",), "::1", 80, True),
        (("127.0.0.1",), "127.0.0.1", 80, True),
        (("*",), "a.org", 1, True),
    ],
)
def test_a_host_is_covered_by_an_entry(hosts: Sequence[str], host: str, port: int, allowed: bool) -> None:
    assert reaches(hosts, host, port) is allowed


async def ask(path: Path, request: str, hosts: Sequence[str] = ()) -> tuple[str, list[str]]:
    """What the proxy answers, and whom it refused."""
    proxy = Proxy(path, hosts)
    await proxy.start()
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(request.encode())
    writer.write_eof()
    answer = (await reader.read()).decode()
    writer.close()
    proxy.close()
    assert not path.exists()
    return answer, proxy.refused


@pytest.mark.parametrize(
    ("request_line", "status", "refused"),
    [
        ("CONNECT a.org:443 HTTP/1.1", 403, ["a.org"]),
        ("CONNECT a.org:22 HTTP/1.1", 403, ["a.org:22"]),
        ("CONNECT [::1]:22 HTTP/1.1", 403, ["[::1]:22"]),
        ("GET http://a.org/x HTTP/1.1", 403, ["a.org"]),
        ("GET http://allowed.org@a.org/x HTTP/1.1", 403, ["a.org"]),
        ("GET http://user:allowed.org@a.org:81/x HTTP/1.1", 403, ["a.org:81"]),
        ("CONNECT allowed.org\t:443 HTTP/1.1", 400, []),
        ("CONNECT allowed.org:443:22 HTTP/1.1", 400, []),
        ("CONNECT a.org:99999 HTTP/1.1", 400, []),
        ("CONNECT [::1%1.allowed.org]:443 HTTP/1.1", 400, []),
        ("CONNECT ::1%x.allowed.org:443 HTTP/1.1", 400, []),
        ("CONNECT a.org@x.allowed.org:443 HTTP/1.1", 400, []),
        ("CONNECT a.org#.allowed.org:443 HTTP/1.1", 400, []),
        ("GET http://a.org\\.allowed.org/ HTTP/1.1", 400, []),
        ("GET http://[::1%.allowed.org]/ HTTP/1.1", 400, []),
        ("GET\nHost:x http://x.allowed.org/ HTTP/1.1", 400, []),
        ("GET http://x.allowed.org/ HTTP/1.1\r\nHost : a.org", 400, []),
        ("GET http://x.allowed.org/ HTTP/1.1\r\nA: b\nHost: a.org", 400, []),
        ("GET http://x.allowed.org/ HTTP/1.1\r\n Host: a.org", 400, []),
        ("GET https://allowed.org/ HTTP/1.1", 400, []),
        ("GET /x HTTP/1.1", 400, []),
        ("nonsense", 400, []),
    ],
)
async def test_what_is_not_allowed_is_refused_by_name(
    tmp_path: Path, request_line: str, status: int, refused: list[str]
) -> None:
    answer, told = await ask(
        tmp_path / "p", f"{request_line}\r\nHost: allowed.org\r\n\r\n", ("allowed.org", "*.allowed.org")
    )
    assert (answer.split(" ")[1], told) == (str(status), refused)


async def test_a_public_name_does_not_lead_to_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def found(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80)) for address in ("93.184.216.34", "10.0.0.7")]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)
    answer, refused = await ask(tmp_path / "p", "CONNECT a.org:443 HTTP/1.1\r\n\r\n", ("a.org",))
    assert refused == ["a.org"]
    assert "its address is on this machine" in answer


async def test_a_plain_request_is_sent_once_and_for_the_host_that_was_checked(tmp_path: Path) -> None:
    seen: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.read())
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhello")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        fields = "Host: evil.org\r\nConnection: keep-alive\r\nX: 1"
        head = f"POST http://u@localhost:{port}/a?b HTTP/1.1\r\n{fields}\r\n\r\nbody"
        told, _ = await ask(tmp_path / "p", head, (f"localhost:{port}",))
    assert told.endswith("hello")
    want = f"POST /a?b HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\nX: 1\r\n\r\nbody"
    assert seen == [want.encode()]


async def test_an_unreachable_host_is_no_refusal(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    answer, refused = await ask(tmp_path / "p", f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n", (f"127.0.0.1:{port}",))
    assert (answer.split(" ")[1], refused) == ("502", [])
