"""`pilotfish policy check`: shows how policy judges a call, without running it.

Input and output are JSON objects, one per line:

    {"tool": "bash", "args": {"command": "git status"}, "mode": "ask", "root": "."}
    {"verdict": "allow", "reason": "it only reads", "commands": ["git status: only reads"]}

`mode`, `root`, `cwd`, `trusted` (default true) and `rules` (added to the standing ones) may be left out.
The functions that collect and judge the facts are those of a real call.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import orjson
from pydantic import ValidationError

from pilotfish.config.managed_policy import managed_policy
from pilotfish.config.rule_store import RuleBook, rule_from
from pilotfish.config.settings import Settings, load_user
from pilotfish.conversation.messages import Category
from pilotfish.engine.turn.calls.facts import collect
from pilotfish.errors import PilotfishError, Refused
from pilotfish.policy.rule_suggestions import describe
from pilotfish.policy.rules import Rule
from pilotfish.policy.verdict import Mode, Verdict
from pilotfish.tools import BY_NAME
from pilotfish.tools.tool import Subject
from pilotfish.workspace.files.paths import resolve
from pilotfish.workspace.own_programs import distrust
from pilotfish.workspace.sandbox.sandbox import chosen_sandbox

if TYPE_CHECKING:
    from pilotfish.policy.rules import CallFacts

MAX_LINE = 4_000_000  # characters


def main(stdin: TextIO, stdout: TextIO) -> int:
    """Answer every line, in order. Returns the exit code: 0, or 2 if a line was invalid."""
    check = Check(RuleBook(), managed_policy().tighten(load_user().settings))
    code = 0
    for line in stdin:
        if not line.strip():
            continue
        answer = check.line(line)
        code = 2 if answer.get("error") else code
        stdout.write(orjson.dumps(answer).decode() + "\n")
        stdout.flush()
    return code


class Check:
    """Judges calls like the server of this user."""

    def __init__(self, book: RuleBook, settings: Settings) -> None:
        self._book = book
        self._settings = settings

    def line(self, line: str) -> dict[str, Any]:
        """Answer one line of JSON. Never raises."""
        try:
            value = orjson.loads(line) if len(line) <= MAX_LINE else None
        except ValueError:
            value = None
        if not isinstance(value, dict):
            return _bad("the line is not a JSON object")
        try:
            verdict = self.judge(cast("dict[str, Any]", value))
        except (PilotfishError, ValueError) as error:
            return _bad(str(error))
        answer: dict[str, Any] = {"verdict": verdict.decision, "reason": verdict.reason}
        if verdict.rule is not None:
            answer["rule"] = describe(verdict.rule)
        if verdict.commands:
            answer["commands"] = verdict.commands
            answer["wall"] = verdict.wall
        return answer

    def judge(self, call: Mapping[str, Any]) -> Verdict:
        """Judge a call given as JSON. Raises ValueError if the call is invalid."""
        mode = Mode(str(call.get("mode", self._settings.mode)))
        root = Path(str(call.get("root", "."))).expanduser().resolve()
        trusted = call.get("trusted", True) is True
        rules = (*self._book.rules_for(root, self._settings, trusted=trusted), *_extra(call.get("rules")))
        try:
            facts = self._facts(call, root)
        except Refused as refusal:
            return Verdict(decision="deny", reason=str(refusal))
        return managed_policy().judge(facts, mode.value, rules, trusted)

    def _facts(self, call: Mapping[str, Any], root: Path) -> CallFacts:
        name, args = call.get("tool"), call.get("args", {})
        if not isinstance(name, str) or not isinstance(args, dict):
            raise ValueError("a call needs a tool and its args")
        values = cast("dict[str, Any]", args)
        tool = BY_NAME.get(name)
        if tool is None:
            if "/" not in name:
                raise ValueError(f"there is no tool {name}")
            subject, category = Subject(mcp=name), Category.EXECUTE
        else:
            try:
                subject, category = tool.subject(tool.args.model_validate(values)), tool.category
            except ValidationError as error:
                first = error.errors(include_url=False, include_context=False, include_input=False)[0]
                place = ".".join(map(str, first["loc"]))
                raise ValueError(f"the arguments do not fit: {place}: {first['msg']}") from error
        distrust((root,))
        where = partial(resolve, roots=(root,), home=Path.home())
        directory = where(str(call["cwd"])).path if "cwd" in call else root
        sandbox = None if subject.command is None else chosen_sandbox(self._settings)
        return collect(
            name,
            category,
            subject,
            resolve=where,
            directory=directory,
            walled=sandbox is not None and sandbox.read_only.stands,
            confined=sandbox is not None and sandbox.bwrap is not None,
            args=values,
        )


def _extra(entries: object) -> tuple[Rule, ...]:
    rules: list[Rule] = []
    for entry in cast("list[object]", entries) if isinstance(entries, list) else []:
        rule = rule_from(entry, "session")
        if isinstance(rule, str):
            raise ValueError(f"a rule cannot be used: {rule}")
        rules.append(rule)
    return tuple(rules)


def _bad(why: str) -> dict[str, Any]:
    """The answer to an invalid line."""
    return {"verdict": "deny", "reason": why, "error": True}
