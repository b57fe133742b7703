"""Secrets of the workspace do not enter the conversation, whole turns on the scripted provider."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.engine import rig
from tests.support.frontends import DENY
from tests.support.provider import Call, call, calls, say

SECRET_FILES = [
    ".env", "app/.env.production", "service-account.json", "my_service_account_prod.json", "kubeconfig",
    "kubeconfig.yaml",
    ".secrets.toml", "rclone.conf", "key.asc", "appsettings.Production.json", "local.settings.json", "id_ed25519",
    "prod.tfvars", "credentials.json", ".netrc", ".npmrc",
]  # fmt: skip


@pytest.mark.parametrize("mode", ["lines", "files", "count"])
async def test_grep_does_not_say_whether_a_secret_file_has_a_hit(tmp_path: Path, mode: str) -> None:
    files = dict.fromkeys(SECRET_FILES, "password hunter2\n") | {"main.py": "x = 1\n"}
    guesses = [{"pattern": pattern, "mode": mode, "include_ignored": True} for pattern in ("hunter2", "hunter3")]
    replies = (calls(*(Call("grep", guess) for guess in guesses)), say("done"))
    async with rig(tmp_path, *replies, files=files, mode="ask") as turn:
        os.link(turn.root / ".env", turn.root / "linked.txt")
        (turn.root / "pointer.txt").symlink_to(turn.root / ".env")
        await turn.prompt("go")
        hit, miss = [m["content"] for m in turn.provider.requests[1].body["messages"] if m["role"] == "tool"]
        assert hit == miss
        assert turn.frontend.asked == []


@pytest.mark.parametrize("name", [*SECRET_FILES, "linked.txt"])
async def test_a_secret_file_is_asked_about_before_it_is_read(tmp_path: Path, name: str) -> None:
    replies = (call("read_file", path=name), call("grep", pattern="hunter", path=name), say("done"))
    async with rig(tmp_path, *replies, files=dict.fromkeys(SECRET_FILES, "hunter2\n"), mode="auto") as turn:
        os.link(turn.root / ".env", turn.root / "linked.txt")
        turn.answers(lambda _: DENY)
        await turn.prompt("go")
        assert len(turn.frontend.asked) == 2
        assert "hunter2" not in str([request.body for request in turn.provider.requests])


KEY = (
    "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\n"
    "QyNTUxOQAAACBq8Zt4kVn1Wc0mUu7R3yJ9xPpHs5dLq2TtGbNfEoKvXw=="
)
LEAKS = {
    "a line of grep": ("src/x.txt:API_TOKEN=q7Rk29ZmVt81LpXw", "q7Rk29ZmVt81LpXw"),
    "a key from its second line": (f"{KEY}\n-----END OPENSSH PRIVATE KEY-----", "b3BlbnNzaC1r"),
    "a query string": ("GET https://api.example.org/v1?user=1&access_token=q7Rk29ZmVt81LpXwA3", "q7Rk29ZmVt81LpXwA3"),
}


@pytest.mark.parametrize("name", LEAKS)
async def test_a_secret_in_other_text_is_masked(tmp_path: Path, name: str) -> None:
    text, secret = LEAKS[name]
    replies = (calls(Call("read_file", {"path": "log.txt"}), Call("bash", {"command": "cat log.txt"})), say("done"))
    async with rig(tmp_path, *replies, files={"log.txt": text + "\n"}, mode="ask") as turn:
        await turn.prompt("go")
        sent = str(turn.provider.requests[1].body)
        assert sent.count("[hidden: ") == 2
        assert secret not in sent
