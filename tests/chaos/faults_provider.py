"""Faults of a provider."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess

from tests.chaos.world import KEY, PATIENCE, Fault, World, memory
from tests.support.provider import Call, Pause, Raw, Reply, Text, calls, say, serve

BIG = int(os.environ.get("PILOTFISH_MEGABYTES", "100" if os.environ.get("PILOTFISH_LONG") else "10"))


def event(text: str) -> Raw:
    """A raw event of the stream."""
    return Raw(f"data: {text}\n\n")


def chunk(choices: str, rest: str = "") -> Raw:
    return event(f'{{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{choices}]{rest}}}')


def delta(content: str) -> Raw:
    return chunk(f'{{"index":0,"delta":{{"content":{content}}},"finish_reason":null}}')


def usage(count: object) -> Raw:
    return chunk("", f',"usage":{{"prompt_tokens":{count},"completion_tokens":{count},"total_tokens":{count}}}')


LIST = Call("list_dir", {"path": "."}, id="same")
ODD: dict[str, Reply] = {
    "drops": say("a", "b", after=1, end="drop"),
    "drops before a word": Reply(wire=""),
    "drops inside a call": calls(
        Call("write_file", {"path": "half.txt", "content": "x"}, split=3), after=6, end="drop"
    ),
    "ends without an end": say("a", "b", end="cut"),
    "garbage": say("a", end="garbage"),
    "garbage for an answer": Reply(wire="\udcff\udcfe\x00 what?\r\n\r\n"),
    "half a utf-8 sequence, then the end": Reply(parts=(Text("a"), Raw('data: {"choices": "\udce2\udc82')), end="cut"),
    "half a utf-8 sequence inside a string": Reply(parts=(Text("a"), delta('"\udce2\udc82 b"'), Text("c"))),
    "half a surrogate pair": Reply(parts=(Text("a"), delta('"\\ud83d"'), Pause(0.2), delta('"\\ude00"'))),
    "html": Reply(body="<html>Sign in</html>", content_type="text/html"),
    "a stream that calls itself json": say("a", content_type="application/json"),
    "json where a stream was asked for": Reply(body='{"choices": []}', content_type="application/json"),
    "an empty answer": Reply(body=""),
    "events of another shape": Reply(parts=(chunk("null"), chunk('{"index":0}'), event("5"), event("[]"), Text("a"))),
    "nesting without end": Reply(parts=(delta('"a"'), event("[" * 5000))),
    "absurd numbers": Reply(parts=(Text("a"), usage(-1.5), usage("null"), usage('"many"'))),
    "huge numbers": Reply(parts=(Text("a"), usage(10**30))),
    "a call without a name": calls(Call("", {})),
    "calls with one id": calls(LIST, LIST),
    "arguments that are no json": calls(Call("read_file", '{"path": "a')),
    "a call of megabytes": calls(Call("write_file", {"path": 5, "content": "x" * 3_000_000})),
    "a server error": Reply(error="server"),
    "an error inside the stream": say("a", end="error:overloaded"),
    "an error page of megabytes": Reply(status=500, body="x" * 5_000_000, content_type="text/plain"),
    "headers without end": Reply(wire="HTTP/1.1 200 OK\r\n" + "x: y\r\n" * 5_000),
}


def odd(name: str) -> Fault:
    """The provider responds once like this; the request is retried, or the turn ends with a remedy."""

    async def fault(world: World) -> str:
        session = await world.session()
        answer = await world.turn(session, ODD[name])
        assert answer.stop_reason in ("end_turn", "failed", "budget")  # huge numbers are over any budget
        assert (answer.error is None) == (answer.stop_reason != "failed")
        assert not (world.folder / "half.txt").exists()
        return session

    return fault


async def stalls(world: World) -> str:
    session = await world.session()
    answer = await world.turn(session, say("and then", end="stall"), say("on"))
    assert answer.stop_reason == "end_turn"
    return session


async def redirects(world: World) -> str:
    """The key is sent only to the configured address."""
    session = await world.session()
    async with serve(otherwise=say("Give me your key")) as thief:
        answer = await world.turn(
            session, Reply(status=307, headers={"location": f"{thief.openai_url}/chat/completions"})
        )
        assert answer.stop_reason in ("end_turn", "failed")
        assert thief.requests == []
    return session


async def speaks_no_tls(world: World) -> str:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert KEY.encode() not in await reader.read(1000)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        return await _at(world, server)


async def has_a_certificate_of_its_own(world: World) -> str:
    """The certificate is not trusted, so nothing is sent."""
    received: list[bytes] = []
    key, certificate = world.place / "key.pem", world.place / "certificate.pem"
    words = [
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=x",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    ]
    subprocess.run(["openssl", *words, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(1000))
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0, ssl=context) as server:
        session = await _at(world, server)
    assert received == []
    return session


async def _at(world: World, server: asyncio.Server) -> str:
    """A turn with this server as the provider; afterwards the original provider is restored."""
    session = await world.session()
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    for address, ends in ((url, "failed"), (world.provider.openai_url, "end_turn")):
        world.client.notify("workspace/didChangeConfiguration", {"settings": {"pilotfish": {"baseUrl": address}}})
        assert (await world.turn(session, say("here"))).stop_reason == ends
    return session


async def says_a_hundred_megabytes(world: World) -> str:
    """The whole answer is stored, and the session can be continued. Deleting the session frees its memory."""
    session = await world.session()
    turn = world.begin(session, say("x" * 65_535 + "\n", times=BIG * 16))
    assert (await asyncio.wait_for(turn, PATIENCE * max(1, BIG / 20))).stop_reason == "end_turn"
    assert memory(world.pid) < world.usual[0] + 30 * BIG * 1_000_000
    assert sum(map(len, world.client.laws.texts[session].values())) == BIG * 16 * 65_536
    await world.restart()
    await world.still_there(session)
    assert (await world.turn(session, say("and on"))).stop_reason == "end_turn"
    await world.client.request("pilotfish/session/delete", {"sessionId": session})
    return await world.session()


async def never_ends(world: World) -> str:
    session = await world.session()
    turn = world.begin(session, say("on and on ", end="endless", delay=0.001))
    await world.client.first_update("agent_message_chunk", session)
    await world.moment(1.0)
    await world.client.request("pilotfish/session/cancel", {"sessionId": session})
    assert (await asyncio.wait_for(turn, PATIENCE)).stop_reason == "cancelled"
    return session


async def asks_for_a_thousand_calls(world: World) -> str:
    files = [world.file(f"n{number}.txt", "x\n") for number in range(1000)]
    session = await world.session()
    answer = await world.turn(
        session, calls(*(Call("read_file", {"path": file.name}) for file in files)), say("enough")
    )
    for file in files:
        file.unlink()
    assert answer.stop_reason == "end_turn"
    assert len(world.client.laws.calls[session]) == 1000
    return session
