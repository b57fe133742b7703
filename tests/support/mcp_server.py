"""A small MCP server over stdio, for tests: `python mcp_server.py [seconds to start]`.

Its tools: `echo` and `peek` (which says that it only reads), `picture`, `slow` (reports progress), `ask` (elicitation),
`roots`, `breaks` (an error), `die`. It has one resource and one prompt.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from typing import Any

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = [
    {"name": "echo", "description": "Says it again.", "inputSchema": {**TEXT, "required": ["text"]}},
    {"name": "peek", "description": "Looks.", "inputSchema": TEXT, "annotations": {"readOnlyHint": True}},
    *(
        {"name": name, "description": name, "inputSchema": TEXT}
        for name in ("picture", "slow", "ask", "roots", "breaks", "die")
    ),
]
IDS = itertools.count(1000)


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def request(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Ask the client and wait for the answer."""
    number = next(IDS)
    send({"id": number, "method": method, "params": params})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == number and "method" not in message:
            return message.get("result", {})
    sys.exit(0)


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], **more}


def call(params: dict[str, Any]) -> dict[str, Any]:
    said = params.get("arguments", {}).get("text", "")
    match params["name"]:
        case "echo" | "peek":
            return text(f"again: {said}")
        case "picture":
            return {
                "content": [
                    {"type": "text", "text": "a picture"},
                    {"type": "image", "data": PIXEL, "mimeType": "image/png"},
                ]
            }
        case "slow":
            token = params.get("_meta", {}).get("progressToken")
            for step in (1, 2):
                about = {"progressToken": token, "progress": step, "total": 2, "message": f"step {step}"}
                send({"method": "notifications/progress", "params": about})
            time.sleep(0.2)
            return text("done")
        case "ask":
            color = {"type": "string", "description": "Which color?", "enum": ["red", "blue"]}
            wanted = {"type": "object", "properties": {"color": color}, "required": ["color"]}
            answer = request("elicitation/create", {"message": "Please choose", "requestedSchema": wanted})
            content: dict[str, Any] = answer.get("content") or {}
            return text(f"{answer.get('action')}: {content.get('color')}")
        case "roots":
            return text(", ".join(root["uri"] for root in request("roots/list", {}).get("roots", [])))
        case "die":
            os._exit(3)
        case _:
            return text("it broke", isError=True)


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 0)
            offers: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}}
            about = {"name": "tiny", "version": "1"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": offers, "serverInfo": about}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            return call(params)
        case "resources/list":
            return {"resources": [{"uri": "tiny://notes", "name": "notes", "mimeType": "text/plain"}]}
        case "resources/read":
            words = "remember the milk and the brown bread"
            return {"contents": [{"uri": params["uri"], "mimeType": "text/plain", "text": words}]}
        case "prompts/list":
            topic = [{"name": "topic", "required": True}]
            return {"prompts": [{"name": "explain", "description": "Explains a topic", "arguments": topic}]}
        case "prompts/get":
            said = f"Explain {params.get('arguments', {}).get('topic')} in one sentence."
            return {"messages": [{"role": "user", "content": {"type": "text", "text": said}}]}
        case "ping":
            return {}
        case _:
            return None


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked and "method" in asked:
            result = answer(asked["method"], asked.get("params") or {})
            error = {"code": -32601, "message": "no such method"}
            send({"id": asked["id"], **({"error": error} if result is None else {"result": result})})


if __name__ == "__main__":
    main()
