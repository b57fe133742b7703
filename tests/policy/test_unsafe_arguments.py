"""A prefix rule covers listed flags and one target; policy asks about all other arguments."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.policy import command

from pilotfish.policy.judge import Rule, judge, narrowest_rule


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
    offered = narrowest_rule(command(line), "session")
    assert offered is not None
    assert offered.pattern == pattern


def test_a_command_rule_applies_only_in_the_workspace_root() -> None:
    facts = command("npm test")
    assert judge(facts, "ask", [allow("npm test *")]).decision == "allow"
    assert judge(replace(facts, elsewhere=True), "ask", [allow("npm test *")]).decision == "ask"
