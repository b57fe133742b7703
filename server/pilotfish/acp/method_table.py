"""Generates `docs/acp.md`: every method of the ACP schema, and what we do with it. `make generate` writes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import acp

TARGET = Path(__file__).parents[3] / "docs" / "acp.md"
HEAD = """# The Agent Client Protocol

`pilotfish acp` speaks ACP version {version} over stdin and stdout. This page is generated (`make generate`) from the
schema of the installed `agent-client-protocol`; a test calls every method of the running program.

"""
SERVED: Mapping[str, str] = {
    "initialize": "answered before the engine is loaded",
    "authenticate": "a provider's key: from the environment, or typed into a form of the client and kept in memory",
    "logout": "forgets the keys that were typed",
    "session/new": "with MCP servers over stdio, HTTP and SSE, which start when the folder is trusted",
    "session/load": "with the whole transcript; a question that was open is asked again",
    "session/resume": "like `session/load`, without the transcript",
    "session/fork": "the whole conversation so far",
    "session/list": "by folder, with a cursor",
    "session/close": "stops the turn and frees the session, which stays stored",
    "session/delete": "",
    "session/prompt": "text, images, embedded text and links to files; slash commands",
    "session/cancel": "also a prompt that waits for trust",
    "session/set_mode": "`ask`, `plan`, `edit`, `auto`",
    "session/set_config_option": "`model`, `mode`, `thinking`",
    "$/cancel_request": "of a prompt; other requests are answered at once",
}
"""method of an agent → what it does here"""
USED: Mapping[str, str] = {
    "session/update": "every kind but `plan_update` and `plan_removed` (unstable)",
    "session/request_permission": "approvals, with the whole diff or command; options differ in kind",
    "fs/read_text_file": "where offered: files with their unsaved text",
    "fs/write_text_file": "where offered: edits, compared before and after the write",
    "elicitation/create": "where offered: questions of the agent and of MCP servers, keys",
}
"""method of a client → what we ask of it"""
NOT_SERVED: Mapping[str, str] = {
    "providers/list": "unstable; endpoints are in `config.toml`",
    "providers/set": "unstable; endpoints are in `config.toml`",
    "providers/disable": "unstable; endpoints are in `config.toml`",
    "mcp/message": "unstable; MCP servers over ACP are refused in `session/new`",
    "nes/start": "unstable; no edit predictions",
    "nes/suggest": "unstable; no edit predictions",
    "nes/accept": "unstable; no edit predictions",
    "nes/reject": "unstable; no edit predictions",
    "nes/close": "unstable; no edit predictions",
    "document/didOpen": "unstable; belongs to edit predictions",
    "document/didChange": "unstable; belongs to edit predictions",
    "document/didClose": "unstable; belongs to edit predictions",
    "document/didSave": "unstable; belongs to edit predictions",
    "document/didFocus": "unstable; belongs to edit predictions",
}
NOT_USED: Mapping[str, str] = {
    "terminal/create": "commands run in our sandbox and end with their whole process tree; output is sent as content",
    "terminal/output": "see `terminal/create`",
    "terminal/release": "see `terminal/create`",
    "terminal/wait_for_exit": "see `terminal/create`",
    "terminal/kill": "see `terminal/create`",
    "mcp/connect": "unstable; MCP servers over ACP are refused in `session/new`",
    "mcp/message": "unstable; MCP servers over ACP are refused in `session/new`",
    "mcp/disconnect": "unstable; MCP servers over ACP are refused in `session/new`",
    "elicitation/complete": "belongs to elicitation by URL, which we do not ask for",
}
FOOT = """
## Unsaved text

Where the client offers `fs/read_text_file` and `fs/write_text_file`, files are read and edited through the editor. ACP
reports no changes and has no versions, so the text is read again before every look and every write, and read back
afterwards. An edit that was approved is made only if the text is still the one that was shown. What is typed between
that comparison and the write, some milliseconds, cannot be seen: LSP clients have versions and do not have this gap.
Most clients save what they are given to write; for those that do not, the model is told that the file is unsaved.

Without `fs/*` files are read and written on disk. ACP version 2 drops `fs/*`: a client of that version gets version 1
in the answer to `initialize`, or works on disk, and loses this.

## Terminals

In ACP the client runs what `terminal/create` names: outside our sandbox, without the limits of the approval, and with a
process tree that we cannot end. The agent cannot hand output to a client's terminal, so `terminal/*` cannot be used to
show a command that we run either. A helper that only prints our output would have to be started by the client as one
more unconfined process. Live output is therefore the content of the tool call, renewed while the command runs.

## What ACP does not have

Workspace trust: the user is asked once for each folder, and the answer is kept in the user's configuration.
The editor's language servers: Pilotfish starts [its own](editors.md#language-servers).
The review of single hunks: a client shows the diffs of a call, and `/undo` puts a turn back.
A question that fits neither a form nor four options is shown as text, and the next prompt answers it.
"""


def render() -> str:
    """The text of the page."""
    head = HEAD.format(version=acp.PROTOCOL_VERSION)
    agent = [*acp.AGENT_METHODS.values(), "$/cancel_request"]
    lines = [*_table("The client asks", agent, SERVED, NOT_SERVED), ""]
    lines += _table("Pilotfish asks", [*acp.CLIENT_METHODS.values()], USED, NOT_USED)
    return head + "\n".join(lines) + "\n" + FOOT


def _table(title: str, methods: list[str], yes: Mapping[str, str], no: Mapping[str, str]) -> Iterator[str]:
    """Raises KeyError for a method of the schema that has no entry here."""
    yield from (f"## {title}", "", "| method | | how |", "| --- | --- | --- |")
    for method in methods:
        has = method in yes
        yield f"| `{method}` | {'yes' if has else 'no'} | {yes[method] if has else no[method]} |"


if __name__ == "__main__":
    TARGET.write_text(render(), "utf-8")
