"""A prefix rule covers listed flags and one target; policy asks about all other arguments."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.policy import command

from pilotfish.policy.judge import judge
from pilotfish.policy.rule_suggestions import describe, suggest_rule
from pilotfish.policy.rules import Rule


def allow(pattern: str) -> Rule:
    return Rule(decision="allow", tool="bash", pattern=pattern)


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("make test *", "make test deploy"),
        ("make test *", "make test 'CFLAGS=$(shell id)'"),
        ("npm test *", "npm test -C evil"),
        ("npm test *", "cd evil && npm test"),
        ("go vet *", "go vet -vettool=./evil ./..."),
        ("tox *", "tox -x testenv.commands=id"),
        ("mvn test *", "mvn test deploy"),
        ("tsc *", "tsc --generateCpuProfile x"),
        ("git commit -m *", "git commit -m x -an"),
        ("git commit -m *", "git commit -m x --no-verify"),
        ("npm run build *", "cd evil && npm run build"),
        ("pytest *", "pytest ../elsewhere"),
        ("pytest *", "pytest --some-new-flag"),
        ("cargo test *", "cargo test --manifest-path=evil/Cargo.toml"),
    ],
)
def test_a_prefix_rule_does_not_cover_unsafe_arguments(pattern: str, line: str) -> None:
    assert judge(command(line), "ask", [allow(pattern)]).decision == "ask"


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("npm test *", "npm test"),
        ("npm test *", "npm test -- --watch=false"),
        ("pytest *", "pytest -q tests/test_a.py::test_b"),
        ("pytest *", "pytest -k name -x"),
        ("cargo test *", "cargo test --workspace --release"),
        ("go test *", "go test -run=Name ./pkg/..."),
        ("ruff check *", "ruff check --fix src"),
        ("make test *", "make test"),
        ("git commit -m *", "git commit -m 'a message'"),
        ("git add *", "git add src/app.py"),
    ],
)
def test_a_prefix_rule_covers_common_arguments(pattern: str, line: str) -> None:
    assert judge(command(line), "ask", [allow(pattern)]).decision == "allow"
    offered = suggest_rule(command(line), "session")
    assert offered is not None
    assert offered.pattern == pattern


def test_a_command_rule_holds_only_in_the_directory_it_was_given_in() -> None:
    build, rule = command("npm run build"), allow("npm run build *")
    assert judge(build, "ask", [rule]).decision == "allow"
    for facts in (replace(build, folder="web"), command("cd web && npm run build")):
        verdict = judge(facts, "ask", [rule])
        assert verdict.decision == "ask"
        assert verdict.reason.endswith(
            "your rule `npm run build *` holds only in the root of the workspace, and for this command alone"
        )
        offered = suggest_rule(facts, "session")
        in_web = replace(rule, folder="web")
        assert offered == in_web
        assert judge(facts, "ask", [in_web]).decision == "allow"
        assert judge(build, "ask", [in_web]).decision == "ask"
    exact = allow("make")
    assert judge(command("make"), "ask", [exact]).decision == "allow"
    assert judge(replace(command("make"), folder="evil"), "ask", [exact]).decision == "ask"
    assert describe(replace(rule, folder="web")) == (
        "Allow running commands that start with `npm run build` in the folder web, in this session"
    )


def test_a_question_says_why_a_rule_does_not_cover_a_command() -> None:
    verdict = judge(command("make test deploy"), "ask", [allow("make test *")])
    assert verdict.reason == "make may change files; your rule `make test *` does not cover these arguments"
