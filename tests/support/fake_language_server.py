"""A scripted language server, run by path: `fake_language_server.py BEHAVIOUR FOLDER`. Standard library only.

`good` answers everything plainly and reports what it could do as a diagnostic; the other behaviours are faults.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

BEHAVIOUR = sys.argv[1]
CAPABILITIES = {
    "textDocumentSync": 1,
    "definitionProvider": True,
    "referencesProvider": True,
    "documentSymbolProvider": True,
    "workspaceSymbolProvider": True,
    "codeActionProvider": True,
    "renameProvider": True,
}
ZERO = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 4}}
texts: dict[str, str] = {}
versions: dict[str, int] = {}
root = Path.cwd()  # the server is started in its folder


def send(message: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    sys.stdout.buffer.flush()


def receive() -> dict[str, Any]:
    length = 0
    while line := sys.stdin.buffer.readline().strip():
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    if not length:
        sys.exit(0)
    return json.loads(sys.stdin.buffer.read(length))


def attempts() -> list[str]:
    """What this process can do that a language server must not."""
    found: list[str] = []
    try:
        (root / "written").write_text("x")
        found.append("wrote")
    except OSError:
        pass
    try:
        if (root / ".env").read_text():
            found.append("read a secret")
    except OSError:
        pass
    try:
        socket.create_connection(("127.0.0.1", 1), 0.2)
    except ConnectionRefusedError:
        found.append("has network")
    except OSError:
        pass
    if any(value.startswith("sk-") for value in os.environ.values()):
        found.append("has a key")
    return found or ["nothing"]


def publish(uri: str) -> None:
    if BEHAVIOUR == "publishes nothing":
        return
    message = f"{len(texts[uri].splitlines())} lines; can do: {', '.join(attempts())}"
    problem = {"range": ZERO, "message": message, "severity": 1, "source": "fake"}
    send(
        {
            "method": "textDocument/publishDiagnostics",
            "params": {"uri": uri, "version": versions[uri], "diagnostics": [problem]},
        }
    )


def answer(method: str, params: dict[str, Any]) -> Any:
    document: dict[str, Any] = params.get("textDocument") or {}
    uri: str = document.get("uri", "")
    if method in ("textDocument/definition", "textDocument/references"):
        if BEHAVIOUR == "names a key":
            return [{"uri": (root.parent / "home/.ssh/id_rsa").as_uri(), "range": ZERO}]
        return [{"uri": uri, "range": ZERO}]
    if method == "textDocument/rename":
        edit = {"range": ZERO, "newText": params["newName"]}
        if BEHAVIOUR == "edits outside":
            return {"changes": {(root.parent / "outside.py").as_uri(): [edit]}}
        version = versions[uri] - 1 if BEHAVIOUR == "edits an old text" else versions[uri]
        return {"documentChanges": [{"textDocument": {"uri": uri, "version": version}, "edits": [edit]}]}
    return []


def main() -> None:
    if BEHAVIOUR == "leaves a child":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", sys.argv[2]])
    while True:
        message = receive()
        method: str = message.get("method", "")
        params: dict[str, Any] = message.get("params") or {}
        if method == "initialize":
            if BEHAVIOUR == "crashes at once":
                sys.exit(3)
            if BEHAVIOUR == "never starts":
                time.sleep(1000)
            send({"id": message["id"], "result": {"capabilities": CAPABILITIES}})
            if BEHAVIOUR == "claims a huge message":
                sys.stdout.buffer.write(b"Content-Length: 99999999999\r\n\r\n")
                sys.stdout.buffer.flush()
            while BEHAVIOUR == "floods":
                send({"method": "window/logMessage", "params": {"type": 3, "message": "x" * 100}})
        elif method in ("textDocument/didOpen", "textDocument/didChange"):
            document: dict[str, Any] = params["textDocument"]
            changes: list[dict[str, Any]] = params.get("contentChanges") or [document]
            texts[document["uri"]], versions[document["uri"]] = changes[-1]["text"], document["version"]
            publish(document["uri"])
        elif "id" in message and "method" in message:
            if BEHAVIOUR == "crashes later":
                sys.exit(3)
            if BEHAVIOUR == "never answers":
                continue
            send({"id": message["id"], "result": answer(method, params)})


main()
