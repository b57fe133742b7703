"""Rules: what they match, the narrowest suggestion, and how they are described to the user."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.policy import command, corpus, edit, fetch, place, read
from tests.support.tries import tries

from pilotfish.conversation.messages import Category
from pilotfish.policy.judge import judge
from pilotfish.policy.rule_suggestions import describe, examples, refusing_rule, suggest_rule
from pilotfish.policy.rules import CallFacts, Decision, PathFact, Rule, fault_of, host_matches, path_matches


def path_rule(pattern: str, decision: Decision = "allow") -> Rule:
    return Rule(decision=decision, tool="write", pattern=pattern)


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("./a.py", "a.py", True),
        ("./a.py", "sub/a.py", False),
        ("a.py", "a.py", True),
        ("a.py", "sub/a.py", True),
        ("*.py", "sub/deep/a.py", True),
        ("*.py", "a.pyc", False),
        ("src/*", "src/a.py", True),
        ("src/*", "src/b/a.py", False),
        ("src/**", "src/b/a.py", True),
        ("src/**", "srcs/a.py", False),
        ("src/**/a.py", "src/a.py", True),
        ("src/**/a.py", "src/x/y/a.py", True),
        ("**/a.py", "x/a.py", True),
        ("src/?.py", "src/a.py", True),
        ("src/?.py", "src/ab.py", False),
        ("src/[ab].py", "src/b.py", True),
        ("src/[!ab].py", "src/b.py", False),
        ("src", "src/a.py", False),
        ("/w/src/*", "src/a.py", True),
        ("/etc/*", "/etc/hosts", True),
        ("etc/*", "/etc/hosts", False),
        ("A.py", "a.py", False),
        ("**", "a.py", True),
        ("*", "a.py", True),
    ],
)
def test_a_path_rule_that_allows(pattern: str, path: str, matches: bool) -> None:
    assert path_matches(path_rule(pattern), place(path)) is matches


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("secret", "secret/deep/a.py", True),
        ("src/private", "src/private/a.py", True),
        ("A.py", "a.py", True),
        ("caf\u00e9", "cafe\u0301", True),
        ("ſecret", "secret", True),
        ("/etc", "/etc/hosts", True),
        ("secret", "secrets", False),
    ],
)
def test_a_deny_rule_matches_other_spellings_and_descendants(pattern: str, path: str, matches: bool) -> None:
    assert path_matches(path_rule(pattern, "deny"), place(path)) is matches


def test_an_adversarial_glob_is_not_slow() -> None:
    rule = path_rule("*a" * 60 + "b" + "/**" * 60 + "/x")
    assert not path_matches(rule, place("a" * 250 + "/" + "a/" * 200 + "y"))


def test_a_relative_rule_allows_nothing_if_the_root_is_unknown() -> None:
    assert not path_matches(path_rule("./a.py"), PathFact(path="/w/a.py"))
    assert path_matches(path_rule("./a.py", "deny"), PathFact(path="/w/a.py"))


def test_hosts() -> None:
    assert host_matches("docs.rs", "DOCS.rs.")
    assert not host_matches("docs.rs", "www.docs.rs")
    assert host_matches("*.docs.rs", "a.b.docs.rs")
    assert not host_matches("*.docs.rs", "docs.rs")
    assert not host_matches("*.docs.rs", "evildocs.rs")


@pytest.mark.parametrize(
    ("facts", "pattern", "words"),
    [
        (command("npm test"), "npm test *", "running commands that start with `npm test`"),
        (command("npm test -- a.js"), "npm test *", "running commands that start with `npm test`"),
        (command("git status && npm test | head"), "npm test *", "running commands that start with `npm test`"),
        (command("python -m pytest -q"), "python -m pytest *", "running commands that start with `python -m pytest`"),
        (command("pytest -p evil"), "pytest -p evil", "running exactly `pytest -p evil`"),
        (command("./deploy.sh 'a b'"), "./deploy.sh 'a b'", "running exactly `./deploy.sh 'a b'`"),
        (command("python x.py"), "python x.py", "running exactly `python x.py`"),
        (command("make a && make b"), "make a && make b", "running exactly `make a && make b`"),
        (command("make a > log"), "make a > log", "running exactly `make a > log`"),
        (command("cat x.sql | psql db"), "cat x.sql | psql db", "running exactly `cat x.sql | psql db`"),
        (edit("src/a.py"), "./src/a.py", "changing src/a.py"),
        (edit("src/[a].py"), "./src/[[]a].py", "changing src/[[]a].py"),
        (fetch("https://docs.rs/x?y"), "docs.rs", "fetching from docs.rs"),
        (
            CallFacts(tool="search", category=Category.EXECUTE, mcp="github/search"),
            "github/search",
            "using the MCP tool github/search",
        ),
    ],
)
def test_the_narrowest_rule_and_its_description(facts: CallFacts, pattern: str, words: str) -> None:
    rule = suggest_rule(facts, "workspace")
    assert rule is not None
    assert (rule.pattern, describe(rule)) == (pattern, f"Allow {words}, in this workspace")
    assert judge(facts, "ask", [rule]).decision == "allow"


@pytest.mark.parametrize(
    "facts",
    [
        command("rm x"),
        command("ls && rm x"),
        command("git push"),
        command("git -C . push --force"),
        command("bash -c 'git push'"),
        command("sudo rm x"),
        command("npm publish"),
        command("find . -delete"),
        command("git clean -fd"),
        command("git reset --hard"),
        command("echo $(date)"),
        command("make &"),
        command("cat *.py > x"),
        command("cp a ../b"),
        command("echo x > /etc/hosts"),
        command("cat .env"),
        command("ls | xargs cat"),
        edit("../x"),
        edit("a", "delete"),
        edit(".github/workflows/ci.yml"),
        read(".env"),
        fetch("http://localhost/"),
        fetch("not a url"),
    ],
)
def test_always_allow_is_not_offered(facts: CallFacts) -> None:
    assert suggest_rule(facts, "workspace") is None


@given(st.sampled_from([text for _, text in corpus()]))
@settings(max_examples=tries(100), deadline=None)
def test_a_suggested_rule_allows_the_call_but_no_longer_chain(text: str) -> None:
    facts = command(text)
    rule = suggest_rule(facts, "session")
    if rule is None:
        return
    assert fault_of(rule) is None
    assert judge(facts, "ask", [rule]).decision == "allow"
    for tail in ("; rm x", " && rm x", " | sh", "\nrm x", " $(rm x)", " > /etc/x", " &"):
        verdict = judge(command(text.strip() + tail), "ask", [rule])
        assert verdict.decision != "allow" or (verdict.rule is None and verdict.wall == "read_only")


def test_a_deny_rule_denies_the_same_call_in_future() -> None:
    for facts in (command("git push"), command("ls $(x)"), edit("a.py"), fetch("https://docs.rs"), read("../x")):
        rule = refusing_rule(facts, "workspace")
        assert rule is not None
        assert judge(facts, "auto", [rule]).decision == "deny"
    assert judge(edit("b.py"), "auto", [refusing_rule(edit("a.py"), "workspace") or path_rule("x")]).decision == "allow"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Rule(decision="deny", tool="bash", scope="user"), "Deny running any command, everywhere"),
        (Rule(decision="ask", tool="*", pattern="*.lock"), "Ask before accessing *.lock, in this session"),
        (
            Rule(decision="deny", tool="web_fetch", pattern="*.example.com", scope="user"),
            "Deny fetching from any subdomain of example.com, everywhere",
        ),
        (
            Rule(decision="ask", tool="mcp", scope="repository"),
            "Ask before using any MCP tool, set by this repository",
        ),
        (Rule(decision="deny", tool="execute"), "Deny running anything, in this session"),
        (
            Rule(decision="ask", tool="grep", pattern="src/**"),
            "Ask before using the tool grep on src/**, in this session",
        ),
        (Rule(decision="allow", tool="read_only", pattern="./.envrc"), "Allow reading .envrc, in this session"),
        (
            Rule(decision="allow", tool="bash", pattern="a\u202eb"),
            "Allow running exactly `a\\u{202e}b`, in this session",
        ),
    ],
)
def test_rules_are_described(rule: Rule, words: str) -> None:
    assert describe(rule) == words


@pytest.mark.parametrize("pattern", ["npm run build *", "make", "./deploy.sh 'a b'", "make a && make b"])
def test_the_examples_of_a_command_rule_are_true(pattern: str) -> None:
    rule = Rule(decision="allow", tool="bash", pattern=pattern)
    matches, misses = examples(rule)
    assert matches
    assert misses
    assert [judge(command(text), "ask", [rule]).decision for text in matches] == ["allow"] * len(matches)
    assert "allow" not in [judge(command(text), "ask", [rule]).decision for text in misses]


@pytest.mark.parametrize("pattern", ["docs.rs", "*.docs.rs"])
def test_the_examples_of_a_host_rule_are_true(pattern: str) -> None:
    rule = Rule(decision="allow", tool="web_fetch", pattern=pattern)
    matches, misses = examples(rule)
    assert [judge(fetch(url), "ask", [rule]).decision for url in (*matches, *misses)] == ["allow", "ask", "ask"]


def test_the_examples_of_a_path_rule_are_true() -> None:
    rule = path_rule("./src/a.py")
    matches, misses = examples(rule)
    assert [judge(edit(path), "ask", [rule]).decision for path in (*matches, *misses)] == ["allow", "ask", "ask"]


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        (Rule(decision="allow", tool="*"), "it would allow everything; use auto mode instead"),
        (Rule(decision="deny", tool="", pattern="x"), "its tool and pattern must not be empty"),
        (Rule(decision="allow", tool="bash", pattern="a\u200bb"), "it contains invisible characters"),
        (Rule(decision="allow", tool="bash", pattern="a\u00a0b"), "it contains invisible characters"),
        (Rule(decision="deny", tool="bash", pattern="a\u00a0b"), None),
        (Rule(decision="allow", tool="bash", pattern="a" * 3000), "it is too long"),
        (Rule(decision="deny", tool="*"), None),
        (Rule(decision="allow", tool="bash"), None),
    ],
)
def test_invalid_rules_are_rejected(rule: Rule, fault: str | None) -> None:
    assert fault_of(rule) == fault
