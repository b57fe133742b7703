"""Our HTTP transport beside httpx2's own: for the same bytes the same answers, errors and requests."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pilotfish.engine import lean_http
from pilotfish.engine.http import certificates, create_client
from pilotfish.engine.lean_http import LeanTransport

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(talk: Talk, context: ssl.SSLContext | None = None) -> AsyncGenerator[str]:
    """A server whose every connection is talked to like this; its address."""
    talks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def whole() -> None:
            try:
                await talk(reader, writer)
                writer.close()
                await writer.wait_closed()
            except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
                pass
            finally:
                writer.transport.abort()

        talks.add(asyncio.ensure_future(whole()))

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
    try:
        yield f"http{'s' if context else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        for task in talks:
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
        server.close()
        await asyncio.sleep(0.001)  # for connections to be told


async def request_head(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


@asynccontextmanager
async def lean(**timeouts: float) -> AsyncGenerator[httpx2.AsyncClient]:
    transport = LeanTransport(certificates())
    async with httpx2.AsyncClient(transport=transport, timeout=httpx2.Timeout(5, **timeouts)) as client:
        yield client


@asynccontextmanager
async def stock() -> AsyncGenerator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(verify=certificates(), timeout=5, trust_env=False) as client:
        yield client


async def outcome(client: httpx2.AsyncClient, url: str, body: bytes = b"{}") -> object:
    """What a request gives: the answer, or the kind of its error."""
    try:
        async with client.stream("POST", url, content=body, headers={"X-Odd": "a b"}) as answer:
            pieces = [piece async for piece in answer.aiter_raw()]
    except httpx2.TransportError as error:
        return type(error)
    return answer.status_code, answer.reason_phrase, answer.headers.raw, answer.http_version, b"".join(pieces)


# ---- the same as httpx2's own

_bodies = st.binary(max_size=60)
_extra = st.lists(
    st.sampled_from([b"X-A: 1", b"x-a: 2", b"Set-Cookie: a=b", b"X-Long: " + b"y" * 300, b"X-Empty:", b"X-Pad:  z  "]),
    max_size=3,
)


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    version = draw(st.sampled_from([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0"]))
    status = draw(
        st.sampled_from([b"200 OK", b"200 ", b"204 No Content", b"404 Not Found", b"429 Slow down", b"500 x"])
    )
    body = draw(_bodies)
    lines = [version + b" " + status, *draw(_extra)]
    framing = draw(st.sampled_from(["length", "chunked", "close"]))
    if framing == "length":
        lines.append(b"Content-Length: %d" % len(body))
    elif framing == "chunked" and version == b"HTTP/1.1":
        lines.append(b"Transfer-Encoding: chunked")
        cut = draw(st.integers(0, len(body)))
        body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:cut], body[cut:]) if part) + b"0\r\n\r\n"
    if draw(st.booleans()):
        lines.append(b"Connection: close")
    if status.startswith(b"204"):
        body = b""
    before = draw(
        st.sampled_from([b"", b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n"])
    )
    whole = before + b"\r\n".join((*lines, b"", body))
    return whole[: draw(st.integers(0, len(whole)))] if draw(st.integers(0, 3)) == 0 else whole


@settings(max_examples=150, deadline=None)
@given(answers(), st.lists(st.integers(0, 400), max_size=4))
@example(b"HTTP/1.1 200 OK\r\n\r\nuntil the end", [])
@example(b"nonsense\r\n\r\n", [])
@example(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", [])
@example(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", [])
async def test_any_answer_in_any_pieces_is_what_httpx2_makes_of_it(answer: bytes, cuts: list[int]) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_head(reader)
        places = sorted(min(cut, len(answer)) for cut in cuts)
        for start, end in zip([0, *places], [*places, len(answer)], strict=True):
            writer.write(answer[start:end])
            await writer.drain()
            await asyncio.sleep(0)

    async with serving(talk) as url, lean() as ours, stock() as theirs:
        assert await outcome(ours, url) == await outcome(theirs, url)


@pytest.mark.parametrize("content", [b"", b"{}", b"x" * 200_000])
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_request_is_the_same_to_the_byte(content: bytes, chunked: bool) -> None:
    seen: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got = b""
        while not got.endswith(b"\r\n\r\nEND") and (more := await reader.read(65536)):
            got += more
            if got.endswith((b"END", b"END\r\n0\r\n\r\n")):
                break
        seen.append(got)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async def pieces() -> AsyncGenerator[bytes]:
        yield content + b"END"

    async with serving(talk) as url, lean() as ours, stock() as theirs:
        for client in (ours, theirs):
            sent = pieces() if chunked else content + b"END"
            await client.post(url + "/v1/a%20b?c=d", content=sent, headers={"X-Key": "k", "X-Words": "a  b"})
    assert seen[0] == seen[1]


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "http://nowhere.invalid", "https://127.0.0.1:9"])
async def test_nobody_there_is_the_same_error(address: str) -> None:
    async with lean() as ours, stock() as theirs:
        assert await outcome(ours, address) == await outcome(theirs, address) == httpx2.ConnectError


async def test_a_server_that_speaks_no_tls_is_the_same_error() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad\r\n\r\n")

    async with serving(talk) as url, lean() as ours, stock() as theirs:
        secure = url.replace("http", "https")
        assert await outcome(ours, secure) == await outcome(theirs, secure) == httpx2.ConnectError


@pytest.mark.parametrize("value", ["a\r\nX-Other: b", " a", "a\n", "a\0b"])
async def test_a_header_that_cannot_be_is_refused_as_httpx2_does(value: str) -> None:
    async with serving(answering(OK, [])) as url, lean() as ours, stock() as theirs:
        for client in (ours, theirs):
            with pytest.raises(httpx2.LocalProtocolError):
                await client.get(url, headers={"X-Key": value})


# ---- connections

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def answering(answer: bytes, connections: list[int], times: int = 100) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        for _ in range(times):
            await request_head(reader)
            connections[-1] += 1
            writer.write(answer)

    return talk


async def test_a_connection_is_used_again() -> None:
    connections: list[int] = []
    async with serving(answering(OK, connections)) as url, lean() as client:
        for _ in range(3):
            assert (await client.get(url)).content == b"ok"
        await asyncio.gather(*(client.get(url) for _ in range(3)))
    assert len(connections) == 3
    assert sum(connections) == 6


async def test_one_that_the_server_has_closed_is_not() -> None:
    connections: list[int] = []
    async with serving(answering(OK, connections, times=1)) as url, lean() as client:
        for _ in range(3):
            assert (await client.get(url)).content == b"ok"
            await asyncio.sleep(0.02)
    assert connections == [1, 1, 1]


@pytest.mark.parametrize("hang_up", [b"", b"HTTP/1.1 200"])
async def test_one_that_is_closed_as_it_is_used_is_left_for_another_unless_it_has_answered(hang_up: bytes) -> None:
    connections: list[int] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        await request_head(reader)
        connections[-1] += 1
        writer.write(OK)
        await request_head(reader)
        connections[-1] += 1
        writer.write(hang_up)

    async with serving(talk) as url, lean() as client:
        assert (await client.get(url)).content == b"ok"
        if hang_up:
            assert await outcome(client, url, b"") is httpx2.RemoteProtocolError
        else:
            assert (await client.get(url)).content == b"ok"
    assert connections == ([2] if hang_up else [2, 1])


async def test_one_that_said_too_much_is_not() -> None:
    connections: list[int] = []
    async with serving(answering(OK + b"HTTP/1.1 200 OK\r\n", connections)) as url, lean() as client:
        for _ in range(2):
            assert (await client.get(url)).content == b"ok"
    assert connections == [1, 1]


async def test_one_that_nobody_needs_is_closed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lean_http, "IDLE_SECONDS", 0.01)
    gone = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_head(reader)
        writer.write(OK)
        await reader.read(1)
        gone.set()

    async with serving(talk) as url, lean() as client:
        await client.get(url)
        await asyncio.wait_for(gone.wait(), 10)


@pytest.mark.parametrize("how", ["leave", "cancel", "cancel before the head"])
async def test_an_answer_that_is_not_wanted_any_more_ends_the_connection(how: str) -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_head(reader)
        if how != "cancel before the head":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nsome")
        asked.set()
        with contextlib.suppress(ConnectionError):
            await reader.read(1)
        gone.set()

    async def ask(client: httpx2.AsyncClient, url: str) -> None:
        async with client.stream("GET", url) as answer:
            async for _ in answer.aiter_raw():
                if how == "leave":
                    return

    async with serving(talk) as url, lean() as client:
        task = asyncio.ensure_future(ask(client, url))
        await asyncio.wait_for(asked.wait(), 10)
        await asyncio.sleep(0.02)
        if how != "leave":
            task.cancel()
        await asyncio.wait((task,))
        assert task.cancelled() is (how != "leave")
        await asyncio.wait_for(gone.wait(), 10)


async def test_a_body_that_nobody_reads_is_not_read_ahead_without_end() -> None:
    sent = 0
    stuck = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await request_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n")
        while sent < 50_000_000:
            writer.write(b"x" * 100_000)
            sent += 100_000
            try:
                await asyncio.wait_for(writer.drain(), 0.3)
            except TimeoutError:
                stuck.set()
                await writer.drain()

    async with serving(talk) as url, lean() as client, client.stream("GET", url) as answer:
        await asyncio.wait_for(stuck.wait(), 20)
        assert sent < 25_000_000
        assert sum([len(piece) async for piece in answer.aiter_raw()]) == 50_000_000


# ---- patience


def silent(before: bytes) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_head(reader)
        writer.write(before)
        await asyncio.sleep(60)

    return talk


@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome"])
async def test_a_server_that_stops_is_noticed(before: bytes) -> None:
    async with serving(silent(before)) as url, lean(read=0.05) as client:
        assert await outcome(client, url) is httpx2.ReadTimeout


async def test_a_server_that_takes_nothing_is_noticed() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async with serving(talk) as url, lean(write=0.1) as client:
        assert await outcome(client, url, b"x" * 50_000_000) is httpx2.WriteTimeout


async def test_an_answer_before_the_request_is_all_sent_is_an_answer() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_head(reader)
        writer.write(b"HTTP/1.1 413 Too large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno!")
        await writer.drain()
        await asyncio.sleep(60)

    async with serving(talk) as url, lean() as client:
        answer = await client.post(url, content=b"x" * 50_000_000)
        assert (answer.status_code, answer.content) == (413, b"no!")


async def test_one_that_was_answered_before_it_was_asked_to_the_end_is_not_used_again() -> None:
    connections: list[int] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        await request_head(reader)
        if len(connections) > 1:
            writer.write(OK)
            return
        writer.write(b"HTTP/1.1 413 Too large\r\nContent-Length: 3\r\n\r\nno!")
        await asyncio.sleep(60)

    async with serving(talk) as url, lean(write=5) as client:
        assert (await client.post(url, content=b"x" * 50_000_000)).status_code == 413
        assert (await client.get(url)).content == b"ok"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 \r\nok\r\n0\r\n\r\n",
    ],
)
async def test_what_people_s_own_servers_send_is_taken_as_httpx2_takes_it(answer: bytes) -> None:
    async with serving(answering(answer, [], 1)) as url, lean() as ours, stock() as theirs:
        assert await outcome(ours, url) == await outcome(theirs, url)


async def test_one_that_is_lost_after_a_while_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lean_http, "SOON", 0.0)
    connections: list[int] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        await request_head(reader)
        writer.write(OK)
        await request_head(reader)
        await asyncio.sleep(0.02)

    async with serving(talk) as url, lean() as client:
        assert (await client.get(url)).content == b"ok"
        assert await outcome(client, url, b"") is httpx2.RemoteProtocolError
    assert len(connections) == 1


async def test_a_head_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"X-More: %b\r\n" % (b"x" * 1000))
            await writer.drain()

    async with serving(talk) as url, lean() as client:
        assert await outcome(client, url) is httpx2.RemoteProtocolError


# ---- when it is used


async def test_other_methods_go_through_httpx2_s_own() -> None:
    async with serving(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", [])) as url, lean() as client:
        answer = await client.head(url)
        assert (answer.status_code, answer.content) == (200, b"")
        assert "network_stream" in answer.extensions


def kind_of(client: httpx2.AsyncClient) -> type:
    return type(client._transport)


@pytest.mark.parametrize(
    ("environment", "wanted", "kinds"),
    [
        ({}, True, [LeanTransport]),
        ({}, False, [httpx2.AsyncHTTPTransport]),
        ({"HTTPS_PROXY": "http://127.0.0.1:1"}, True, [httpx2.AsyncHTTPTransport]),
        ({"NO_PROXY": "localhost"}, True, [LeanTransport]),
    ],
)
async def test_it_is_left_where_a_proxy_is_set_and_with_the_setting(
    environment: dict[str, str], wanted: bool, kinds: Sequence[type], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    async with create_client(5, lean=wanted) as client:
        assert [kind_of(client)] == kinds


# ---- TLS


def self_signed(folder: Path) -> Path:
    """A certificate for 127.0.0.1 and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "certificate.pem"
    file.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate.public_bytes(Encoding.PEM)
    )
    return file


async def test_a_certificate_is_believed_when_it_is_trusted_and_only_then(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own.load_cert_chain(certificate)
    own.set_alpn_protocols(["h2", "http/1.1"])
    trusting = ssl.create_default_context(cafile=str(certificate))
    spoken: list[str | None] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        spoken.append(writer.get_extra_info("ssl_object").selected_alpn_protocol())
        await answering(OK, [])(reader, writer)

    async with serving(talk, own) as url:
        async with httpx2.AsyncClient(transport=LeanTransport(trusting)) as client:
            for _ in range(2):
                assert (await client.get(url)).content == b"ok"
        async with lean() as ours, stock() as theirs:
            assert await outcome(ours, url) == await outcome(theirs, url) == httpx2.ConnectError
    assert spoken == ["http/1.1"]
