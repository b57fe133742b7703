"""`pilotfish demo`: the real server as a child over stdio, as an editor would start it, and a turn on a sample.

Everything seen here went over the wire: this module knows JSON-RPC and the protocol's names, nothing of the engine.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from pilotfish import __version__
from pilotfish.cli.terminal.keyboard import Lines
from pilotfish.engine.model.guide.sample import PROMPT, sample_workspace
from pilotfish.text.display_safe import display_safe
from pilotfish.workspace.edits.hunks import unified_diff

GLYPHS = {
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "denied": ("⊘", "yellow"),
    "cancelled": ("■", "yellow"),
}
EXPLANATIONS = {
    "agent_thought_chunk": "thoughts, as the model has them",
    "agent_message_chunk": "words, as they come",
    "tool_call": "each call, whole, whenever it changes",
    "plan": "the list of steps",
    "file_changed": "what was changed, and through what",
}
"""an explanation of each kind of update, shown the first time"""


class DemoFailed(Exception):
    """The demo did not do what it promises."""


async def play(*, yes: bool, wire: bool) -> int:
    """Play it; the exit code. A person may leave at any moment, and nothing stays behind."""
    with tempfile.TemporaryDirectory(prefix="pilotfish-demo-") as place:
        folder = sample_workspace(Path(place) / "sample")
        player = Player(folder, Path(place), yes=yes, wire=wire)
        try:
            await player.play()
        except DemoFailed as error:
            player.say(str(error), "bold red")
            return 1
        finally:
            await player.leave()
    return 0


class Player:
    def __init__(self, folder: Path, place: Path, *, yes: bool, wire: bool) -> None:
        self.console = Console(highlight=False, soft_wrap=True)
        self.folder = folder
        self.place = place
        self.yes = yes
        self.wire = wire
        self.process: asyncio.subprocess.Process | None = None
        self.ids = itertools.count(1)
        self.answers: dict[int, asyncio.Future[Any]] = {}
        self.reader: asyncio.Task[None] | None = None
        self.tasks: set[asyncio.Task[None]] = set()
        self.lines = Lines()
        self.open_item = ""
        self.column = 0
        self.explained: set[str] = set()

    async def play(self) -> None:
        self.say(f"Pilotfish {__version__}: a real server and a real turn, with an embedded model.", "bold")
        self.say("No key is needed, and nothing leaves this machine.", "dim")
        self.step("A sample workspace with a small bug and a failing test", str(self.folder))
        await self.tests(expected=False)
        self.step("The server, started as an editor starts it", "pilotfish serve")
        await self.start()
        began = time.perf_counter()
        hello = await self.request(
            "initialize",
            {
                "processId": os.getpid(),
                "rootUri": self.folder.as_uri(),
                "workspaceFolders": [{"uri": self.folder.as_uri(), "name": "sample"}],
                "capabilities": {"workspace": {"workspaceFolders": True, "configuration": False}},
                "initializationOptions": {
                    "pilotfish": {
                        "protocolVersion": 1,
                        "client": {"approvals": True},
                        "trusted": True,
                        "settings": {"model": "demo", "mode": "ask"},
                    }
                },
            },
        )
        took = (time.perf_counter() - began) * 1000
        ours = hello["capabilities"]["experimental"]["pilotfish"]
        self.say(f"  → initialize   ← answered in {took:.0f} ms, protocol {ours['protocolVersion']}", "dim")
        self.notify("initialized", {})
        session = (await self.request("pilotfish/session/new", {"workspaceFolder": self.folder.as_uri()}))["session"]
        self.say("  → pilotfish/session/new", "dim")
        self.step("A turn", f"→ pilotfish/session/prompt: “{PROMPT}”")
        outcome = await self.request(
            "pilotfish/session/prompt",
            {"sessionId": session["id"], "prompt": [{"type": "text", "text": PROMPT}]},
        )
        self.close_line()
        self.say(f"  ← the prompt, held until now, answers: {outcome['stopReason']}", "dim")
        if outcome["stopReason"] != "end_turn":
            raise DemoFailed(f"The turn ended with {outcome['stopReason']}.")
        if not await self.fixed():
            self.say("You denied the edit, so the file is as it was. That is how it should be.", "yellow")
            self.goodbye()
            return
        await self.tests(expected=True)
        await self.there_and_back(session["id"])
        await self.listed()
        self.goodbye()

    async def there_and_back(self, session_id: str) -> None:
        self.step("Undo of the whole turn, and redo", "→ pilotfish/session/undo, then redo")
        undone = await self.request("pilotfish/session/undo", {"sessionId": session_id})
        names = ", ".join(change["uri"].rpartition("/")[2] for change in undone["changes"])
        self.say(f"  ← put back: {names}; what you had changed since would be left alone, and named", "dim")
        await self.tests(expected=False, when="after undo")
        await self.request("pilotfish/session/redo", {"sessionId": session_id})
        await self.tests(expected=True, when="after redo")

    async def listed(self) -> None:
        self.step("The session is kept", "→ pilotfish/session/list")
        for session in (await self.request("pilotfish/session/list", {}))["sessions"]:
            self.say(f"  {session['title']} · {session['turns']} turn · {session['model']}", "dim")

    def goodbye(self) -> None:
        self.console.print()
        self.say("That was the scripted guide. For real work:", "bold")
        for name, words in (
            ("a model", "export ANTHROPIC_API_KEY=… PILOTFISH_MODEL=anthropic:…   (or openai:…, google:…, ollama:…)"),
            ("check", "pilotfish doctor"),
            ("terminal", "pilotfish chat"),
            ("VS Code", "make vsix, then “Extensions: Install from VSIX…” with client-vscode/pilotfish.vsix"),
            ("others", "Neovim, Emacs, Zed: a few lines each, in docs/install.md"),
        ):
            self.console.print(Text.assemble((f"  {name:<10}", "cyan"), words))
        if not self.wire:
            self.say("  pilotfish demo --wire prints every JSON-RPC message.", "dim")

    # -- the wire ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        environment = {
            **os.environ,
            "PILOTFISH_STORAGE": str(self.place / "store"),
            "PILOTFISH_CONFIG": str(self.place / "config.toml"),
            "PILOTFISH_LOG": str(self.place / "log"),
        }
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "pilotfish",
            "serve",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=self.folder,
            env=environment,
            start_new_session=True,  # Ctrl+C is for us; the server is then asked to stop
        )
        self.reader = asyncio.create_task(self.read())

    async def leave(self) -> None:
        if self.process is None or self.process.stdin is None:
            return
        if self.process.returncode is None:
            try:
                async with asyncio.timeout(5):
                    await self.request("shutdown", None)
                    self.notify("exit", None)
                    await self.process.wait()
            except (TimeoutError, DemoFailed):
                self.process.kill()
                await self.process.wait()
        if self.reader is not None:
            self.reader.cancel()

    async def request(self, method: str, params: Mapping[str, Any] | None) -> Any:
        number = next(self.ids)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.answers[number] = future
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return await future

    def notify(self, method: str, params: Mapping[str, Any] | None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def send(self, message: Mapping[str, Any]) -> None:
        if self.process is None or self.process.stdin is None:
            raise DemoFailed("The server is not running.")
        self.trace("→", message)
        body = orjson.dumps({key: value for key, value in message.items() if value is not None})
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    async def read(self) -> None:
        if self.process is None or self.process.stdout is None:
            return
        stream = self.process.stdout
        try:
            while True:
                length = 0
                while (line := await stream.readline()).strip():
                    name, _, value = line.partition(b":")
                    if name.strip().lower() == b"content-length":
                        length = int(value)
                if not line:
                    break
                self.receive(orjson.loads(await stream.readexactly(length)))
        except asyncio.IncompleteReadError:
            pass
        for future in self.answers.values():
            if not future.done():
                future.set_exception(DemoFailed("The server went away."))

    def receive(self, message: Mapping[str, Any]) -> None:
        self.trace("←", message)
        method = message.get("method")
        if method is None:
            future = self.answers.pop(message["id"])
            if future.done():
                return  # Ctrl+C: nobody waits for the answer any more
            if "error" in message:
                future.set_exception(DemoFailed(f"{message['error']['message']}"))
            else:
                future.set_result(message.get("result"))
        elif method == "pilotfish/session/update":
            self.update(message["params"]["update"])
        elif method == "pilotfish/approval/request":
            task = asyncio.create_task(self.approve(message["id"], message["params"]))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        elif "id" in message:
            error = {"code": -32601, "message": "the demo does not do this"}
            self.send({"jsonrpc": "2.0", "id": message["id"], "error": error})

    def trace(self, arrow: str, message: Mapping[str, Any]) -> None:
        if self.wire:
            self.close_line()
            line = orjson.dumps(message).decode()
            self.say(f"{arrow} {line if len(line) < 600 else line[:600] + '…'}", "blue")

    # -- what the person sees -----------------------------------------------------------------------------------------

    def update(self, update: Mapping[str, Any]) -> None:
        if (kind := update["kind"]) in EXPLANATIONS and kind not in self.explained:
            self.explained.add(kind)
            self.close_line()
            self.say(f"  ← session/update {kind}: {EXPLANATIONS[kind]}", "dim")
        match kind:
            case "agent_message_chunk":
                self.piece(update["itemId"], update["text"], "")
            case "agent_thought_chunk":
                self.piece(update["itemId"], update["text"], "dim italic")
            case "tool_call" if update["call"]["status"] in GLYPHS:
                call = update["call"]
                self.close_line()
                glyph, colour = GLYPHS[call["status"]]
                took = f"  {call.get('durationMs', 0):,} ms"
                self.console.print(Text.assemble((glyph, colour), f" {display_safe(call['title'])}", (took, "dim")))
            case "file_changed":
                name = update["uri"].rpartition("/")[2]
                self.say(f"  {update['change']} {name}  +{update['added']} −{update['removed']}", "dim")
            case _:
                pass

    async def approve(self, number: int, question: Mapping[str, Any]) -> None:
        self.close_line()
        self.say("  ← pilotfish/approval/request: you are shown exactly what would happen", "dim")
        self.say(f"? {question['call']['title']}  ({question['reason']})", "bold yellow")
        preview = question["preview"]
        for file in preview.get("files", ()):
            diff = unified_diff(file.get("before", ""), file.get("after", ""), "before", "after", context=2)
            self.console.print(Syntax(display_safe(diff), "diff", background_color="default", theme="ansi_dark"))
        if preview["kind"] == "command":
            self.say(f"  $ {preview['command']}", "bold")
        option = "allow_once"
        if not self.yes:
            self.lines.drop_typed()
            line = await self.lines.read("  Allow? [Y/n] ")
            # The end of input is no answer, and no answer is no consent.
            option = "reject" if line is None or line.strip().lower().startswith("n") else "allow_once"
        self.say(f"  → {option}{' (nobody is asked: --yes, or no terminal)' if self.yes else ''}", "dim")
        self.send({"jsonrpc": "2.0", "id": number, "result": {"optionId": option}})

    async def tests(self, *, expected: bool, when: str = "now") -> None:
        """Run the sample's tests, and insist that they pass or fail as the story says."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "unittest",
            cwd=self.folder,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        passed = await process.wait() == 0
        self.say(f"  the sample's tests {when}: {'they pass' if passed else 'one fails'}", "green" if passed else "red")
        if passed != expected:
            raise DemoFailed(f"The tests {'pass' if passed else 'fail'}; the demo expected otherwise.")

    async def fixed(self) -> bool:
        text = await asyncio.to_thread((self.folder / "calc.py").read_text, "utf-8")
        return "len(values) - 1" not in text

    def step(self, title: str, detail: str) -> None:
        self.close_line()
        self.console.print()
        self.console.print(Text.assemble(("● ", "cyan"), (title, "bold"), (f"  {detail}", "dim")))

    def say(self, text: str, style: str = "") -> None:
        self.console.print(Text(display_safe(text), style=style))

    def piece(self, item: str, text: str, style: str) -> None:
        if item != self.open_item:
            self.close_line()
            self.open_item, self.column = item, 0
        self.console.print(Text(self.wrapped(display_safe(text)), style=style), end="")

    def wrapped(self, text: str) -> str:
        """The text with lines that end between words; it comes in pieces of whole words."""
        out: list[str] = []
        for word in re.findall(r"\n|[^\s]+[^\S\n]*|[^\S\n]+", text):
            if word == "\n":
                self.column = 0
            elif self.column and self.column + len(word.rstrip()) > self.console.width:
                out.append("\n")
                self.column = len(word)
            else:
                self.column += len(word)
            out.append(word)
        return "".join(out)

    def close_line(self) -> None:
        if self.open_item:
            self.open_item = ""
            self.console.print()
