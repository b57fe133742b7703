"""The HTTP client of the models: what is on disk before a request, bodies that are read ahead, stalls and proxies."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.models import Model
from tests.support.engine import rig
from tests.support.provider import Pause, Provider, Raw, Reply, Text, call, say, serve
from tests.support.stock import ask
from tests.support.waiting import until

from pilotfish.config.settings import Settings
from pilotfish.conversation.records import MessageRecord
from pilotfish.engine.model import resolve
from pilotfish.engine.model.wire import http
from pilotfish.engine.model.wire.delta_joiner import DeltaJoiner
from pilotfish.engine.model.wire.http import READ_AHEAD, ResponseBody, certificates, create_client


async def test_what_the_provider_sees_is_in_the_ledger_by_then(tmp_path: Path) -> None:
    kept: list[list[str]] = []
    async with rig(tmp_path, call("read_file", path="a.txt"), say("done"), say("fine"), files={"a.txt": "a\n"}) as turn:
        for prompt, requests in (("first", (1, 2)), ("second", (3,))):
            running = asyncio.create_task(turn.prompt(prompt))
            for number in requests:
                await turn.provider.received(number)
                entries = await turn.engine.ledger.history(turn.session_id)
                kept.append([entry.record.role for entry in entries if isinstance(entry.record, MessageRecord)])
            await running
    said = ["user", "assistant", "user", "assistant", "user", "assistant"]
    assert [roles == said[: len(roles)] for roles in kept] == [True, True, True]
    assert [len(roles) >= number for roles, number in zip(kept, (1, 3, 5), strict=True)] == [True, True, True]


async def test_a_request_does_not_wait_until_its_prompt_is_durable_and_the_end_of_the_turn_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(tmp_path, say("first"), say("second")) as turn:
        await turn.prompt("first")
        goes_on, ledger = asyncio.Event(), turn.engine.ledger
        sync = ledger.sync

        async def slow(session_id: str) -> None:
            await goes_on.wait()
            await sync(session_id)

        monkeypatch.setattr(ledger, "sync", slow)
        running = asyncio.create_task(turn.prompt("second"))
        async with asyncio.timeout(10):
            await turn.provider.received(2)
            await until(lambda: not ("turn_end" not in [update.record.type for update in turn.frontend.updates[-2:]]))
        await asyncio.sleep(0.05)
        assert not running.done()
        goes_on.set()
        await running


# -- bodies ---------------------------------------------------------------------------------------------------------


def chunk(text: str) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return b"data: " + json.dumps({"id": "1", "choices": [choice]}).encode() + b"\n\n"


def words(block: bytes) -> str:
    """The text of the deltas in a block; the name of other events."""
    out = ""
    for event in block.removesuffix(b"\n\n").split(b"\n\n"):
        try:
            out += json.loads(event.removeprefix(b"data: "))["choices"][0]["delta"]["content"]
        except ValueError:
            out += event.decode()
    return out


class Sent(httpx2.AsyncByteStream):
    """A body whose chunks are sent by the test."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.taken = 0

    def send(self, *chunks: bytes | None) -> None:
        for each in chunks:
            self.queue.put_nowait(each)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (each := await self.queue.get()) is not None:
            self.taken += 1
            yield each

    async def aclose(self) -> None:
        self.queue.put_nowait(None)


async def test_the_first_deltas_wait_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "FRAME", 3600.0)
    sent = Sent()
    blocks = aiter(ResponseBody(sent, 30, DeltaJoiner()))
    sent.send(b": open\n\n")
    assert words(await anext(blocks)) == ": open"
    sent.send(chunk("one"))
    assert words(await asyncio.wait_for(anext(blocks), 5)) == "one"


async def test_deltas_gather_until_the_end_of_the_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "FRAME", 0.2)
    sent = Sent()
    blocks = aiter(ResponseBody(sent, 30, DeltaJoiner()))
    sent.send(chunk("one"))
    assert words(await anext(blocks)) == "one"
    taking = asyncio.ensure_future(anext(blocks))
    for text in ("two ", "three ", "four"):
        sent.send(chunk(text))
        await asyncio.sleep(0.01)
    assert not taking.done()
    assert words(await taking) == "two three four"


@pytest.mark.parametrize("end", [b"data: [DONE]\n\n", b": ping\n\n", None])
async def test_anything_else_ends_the_frame(monkeypatch: pytest.MonkeyPatch, end: bytes | None) -> None:
    monkeypatch.setattr(http, "FRAME", 3600.0)
    sent = Sent()
    blocks = aiter(ResponseBody(sent, 30, DeltaJoiner()))
    sent.send(chunk("one"))
    assert words(await anext(blocks)) == "one"
    sent.send(chunk("two"), end)
    block = await asyncio.wait_for(anext(blocks), 5)
    assert words(block).startswith("two")


async def test_a_body_that_nobody_takes_is_not_read_without_limit() -> None:
    sent = Sent()
    body = ResponseBody(sent, 30, None)
    blocks = aiter(body)
    sent.send(*(bytes(100_000),) * 40)
    first = await anext(blocks)
    for _ in range(100):
        await asyncio.sleep(0)
    assert READ_AHEAD < sent.taken * 100_000 - len(first) <= READ_AHEAD + 100_000
    await body.aclose()


async def test_a_body_that_is_closed_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    body = ResponseBody(Sent(), 30, None)
    taking = asyncio.ensure_future(anext(aiter(body)))
    await asyncio.sleep(0.01)
    await body.aclose()
    with pytest.raises(StopAsyncIteration):
        await taking
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("kind", ["chat", "responses", "anthropic"])
@pytest.mark.parametrize("end", ["stall", "endless"])
async def test_a_cancel_disconnects_and_leaves_no_task(kind: str, end: str) -> None:
    before = asyncio.all_tasks()
    async with serve(say("one", "two", end=end)) as provider:
        asking = asyncio.create_task(ask(pointed(kind, provider)))
        request = await provider.received(1)
        await until(lambda: request.first_byte_at is not None)
        await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await asyncio.wait_for(request.disconnected.wait(), 5)
        await resolve.aclose()
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("kind", ["chat", "responses", "anthropic"])
async def test_a_connection_is_used_again_after_a_complete_answer(kind: str) -> None:
    async with serve(otherwise=say("a")) as provider:
        model = pointed(kind, provider)
        for _ in range(3):
            await ask(model)
        assert len(provider._connections) == 1
        await resolve.aclose()


@pytest.mark.parametrize(("pause", "end"), [(0.03, "cut"), (0.5, "stall")])
async def test_the_end_of_the_body_may_come_late_or_never(pause: float, end: str) -> None:
    parts = (Text("a"), Raw("data: [DONE]\n\n"), Pause(pause))
    async with serve(otherwise=Reply(parts=parts, end=end)) as provider:
        model = pointed("chat", provider)
        answers = [await ask(model) for _ in range(2)]
        await resolve.aclose()
    assert [answer.text for answer in answers] == ["a", "a"]


@pytest.mark.parametrize("kind", ["chat", "responses", "anthropic"])
@pytest.mark.parametrize("end", ["", "\n\n"])
async def test_an_error_with_status_200_says_what_the_provider_said(kind: str, end: str) -> None:
    said = '{"error":\n {"type": "x", "message": "the model is being loaded"}}'
    async with serve(Reply(body=f"{said}{end}", content_type="application/json")) as provider:
        with pytest.raises(ModelAPIError) as caught:
            await ask(pointed(kind, provider))
        await resolve.aclose()
    found = resolve.failure(caught.value)
    assert "the model is being loaded" in str(found)
    assert found.retryable


# -- the way to the provider ----------------------------------------------------------------------------------------


async def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve() as provider:
        for name in ("no_proxy", "NO_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "HTTP_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", provider.url)
        async with create_client(5) as client:
            response = await client.get("http://provider.invalid/v1/models")
    assert response.status_code == 404  # the scripted provider is no proxy and does not know the whole address
    assert "http://provider.invalid/v1/models" in response.text


async def test_a_certificate_must_be_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = self_signed(tmp_path)
    own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own.load_cert_chain(file)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=own)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server:
        certificates.cache_clear()
        async with create_client(5) as client:
            with pytest.raises(httpx2.ConnectError):
                await client.get(url)
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        certificates.cache_clear()
        async with create_client(5) as client:
            assert (await client.get(url)).content == b"ok"
    certificates.cache_clear()


async def test_a_model_is_reached_through_a_proxy_and_with_the_certificates_of_a_company(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real proxy on loopback tunnels to a provider behind TLS, as `HTTPS_PROXY` and `SSL_CERT_FILE` say."""
    file = self_signed(tmp_path)
    own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own.load_cert_chain(file)
    tunnels: list[str] = []
    relays: list[asyncio.Task[None]] = []

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        relays.append(asyncio.create_task(_join(reader, writer, port)))
        await relays[-1]

    async def behind_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await relay(reader, writer, provider.port)

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, target, _ = (await reader.readuntil(b"\r\n\r\n")).decode().split(" ", 2)
        tunnels.append(f"{method} {target}")
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await relay(reader, writer, int(target.rpartition(":")[2]))

    for name in ("no_proxy", "NO_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    async with (
        serve(say("hi")) as provider,
        await asyncio.start_server(behind_tls, "127.0.0.1", 0, ssl=own) as secure,
        await asyncio.start_server(tunnel, "127.0.0.1", 0) as proxy,
    ):
        port, proxy_port = (server.sockets[0].getsockname()[1] for server in (secure, proxy))
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy_port}")
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        certificates.cache_clear()
        settings = Settings(model="m", base_url=f"https://127.0.0.1:{port}/v1")
        try:
            assert (await ask(resolve.resolve("m", settings, {}))).text == "hi"
        finally:
            await resolve.aclose()
            certificates.cache_clear()
        await asyncio.wait(relays)
        assert tunnels == [f"CONNECT 127.0.0.1:{port}"]


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    """Copy bytes in both directions between a connection and a port, until one of them ends."""

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                target.write(data)
                await target.drain()
        with contextlib.suppress(OSError):
            target.close()
            await target.wait_closed()

    there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.gather(copy(reader, there_writer), copy(there_reader, writer))


async def test_a_key_that_is_replaced_while_the_server_runs_is_used(tmp_path: Path) -> None:
    async with rig(tmp_path, otherwise=say("hi")) as turn:
        turn.provider.key = "rotated"
        outcome = await turn.prompt("one")
        assert outcome.error is not None
        assert outcome.error.kind == "authentication"
        turn.engine.set_secret("openai", "rotated")
        assert (await turn.prompt("two")).stop_reason == "end_turn"


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


def pointed(kind: str, provider: Provider) -> Model[Any]:
    """A model of this dialect at the scripted provider."""
    url = provider.url if kind == "anthropic" else provider.openai_url
    name = {"chat": "openai-chat:m", "responses": "openai:m", "anthropic": "anthropic:m"}[kind]
    return resolve.resolve(name, Settings(model=name, base_url=url), {"openai": "k", "anthropic": "k"})
