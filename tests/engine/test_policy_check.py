"""`pilotfish policy check` answers each line with the verdict of the server and runs nothing."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from pilotfish.config.rule_store import RuleBook
from pilotfish.config.settings import Settings
from pilotfish.engine import policy_check
from pilotfish.engine.policy_check import Check
from pilotfish.policy.rules import Rule


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    return place


@pytest.fixture
def check(tmp_path: Path) -> Check:
    return Check(RuleBook(tmp_path / "config.toml"), Settings())


def bash(command: str, root: Path, **more: object) -> str:
    return json.dumps({"tool": "bash", "args": {"command": command}, "root": str(root), **more})


def test_a_call_is_judged_and_explained(check: Check, root: Path) -> None:
    assert check.line(bash("git status", root, mode="ask")) == {
        "verdict": "allow",
        "reason": "it only reads",
        "commands": ("git status: only reads",),
        "wall": "read_only",
    }
    assert check.line(bash("ls && rm x", root, mode="ask")) == {
        "verdict": "ask",
        "reason": "it deletes x",
        "commands": ("ls: only reads", "rm x: rm may change files or run other programs"),
        "wall": "workspace",
    }


def test_nothing_runs(check: Check, root: Path) -> None:
    check.line(bash(f"touch {root}/made > {root}/written", root, mode="auto"))
    assert list(root.iterdir()) == []


def test_files_are_resolved_as_the_server_does(check: Check, root: Path) -> None:
    (root / "out").symlink_to("/etc/passwd")

    def verdict(tool: str, mode: str, **args: object) -> str:
        answer = check.line(json.dumps({"tool": tool, "args": args, "mode": mode, "root": str(root)}))
        return str(answer["verdict"])

    assert verdict("read_file", "ask", path="a.py") == "allow"
    assert verdict("read_file", "auto", path="out") == "ask"
    assert verdict("read_file", "auto", path=".env") == "ask"
    assert verdict("read_file", "auto", path="/proc/self/environ") == "deny"
    assert verdict("write_file", "edit", path="a.py", content="x") == "allow"
    assert verdict("write_file", "plan", path="a.py", content="x") == "deny"
    assert verdict("write_file", "auto", path="../a.py", content="x") == "ask"
    assert verdict("write_file", "auto", path=".github/workflows/x.yml", content="x") == "ask"
    assert verdict("write_file", "auto", path="a.py", content="[hidden: GitHub token]") == "ask"
    assert verdict("github/search", "ask", q="x") == "ask"


def test_rules_and_trust_count(check: Check, root: Path, tmp_path: Path) -> None:
    book = RuleBook(tmp_path / "config.toml")
    book.add(Rule(decision="allow", tool="bash", pattern="npm test *", scope="workspace"), root)
    assert check.line(bash("npm test", root, mode="ask")) == {
        "verdict": "allow",
        "reason": "a rule allows it: Allow running commands that start with `npm test`, in this workspace",
        "rule": "Allow running commands that start with `npm test`, in this workspace",
        "commands": ("npm test: npm may change files or run other programs",),
        "wall": "workspace",
    }
    assert check.line(bash("npm test", root, mode="auto", trusted=False))["verdict"] == "deny"
    extra = [{"decision": "deny", "tool": "bash", "pattern": "npm *"}]
    assert check.line(bash("npm test", root, mode="auto", rules=extra))["verdict"] == "deny"


def test_the_directory_of_a_command_counts(check: Check, root: Path) -> None:
    (root / "sub").mkdir()
    assert check.line(bash("cat ../x", root, cwd=str(root / "sub")))["verdict"] == "allow"
    assert check.line(bash("cat ../x", root))["verdict"] == "ask"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("x", "the line is not a JSON object"),
        ("[]", "the line is not a JSON object"),
        ("{}", "a call needs a tool and its args"),
        ('{"tool": "nope"}', "there is no tool nope"),
        ('{"tool": "bash", "args": {}}', "the arguments do not fit: command: Field required"),
        ('{"tool": "bash", "args": {"command": "ls"}, "mode": "wild"}', "'wild' is not a valid Mode"),
        (
            '{"tool": "bash", "args": {"command": "ls"}, "rules": [{"decision": "x"}]}',
            "a rule cannot be used: its decision is not allow, ask or deny",
        ),
    ],
)
def test_an_invalid_line_is_denied(check: Check, line: str, why: str) -> None:
    assert check.line(line) == {"verdict": "deny", "reason": why, "error": True}


def test_every_line_gets_its_answer_in_order(monkeypatch: pytest.MonkeyPatch, root: Path, tmp_path: Path) -> None:
    monkeypatch.setenv("PILOTFISH_CONFIG", str(tmp_path / "config.toml"))
    lines = [bash("ls", root), "", "broken", bash("rm -rf /", root, mode="auto")]
    out = io.StringIO()
    assert policy_check.main(io.StringIO("\n".join(lines) + "\n"), out) == 2
    answers: list[dict[str, Any]] = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [answer["verdict"] for answer in answers] == ["allow", "deny", "deny"]
    assert policy_check.main(io.StringIO(bash("ls", root)), io.StringIO()) == 0
