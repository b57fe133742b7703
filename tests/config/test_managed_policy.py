"""The policy of an organisation: it restricts and never loosens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.policy import command, corpus, edit, fetch, read
from tests.support.tries import tries

from pilotfish.config import managed_policy as managed
from pilotfish.config.managed_policy import ManagedPolicy, PolicyFile
from pilotfish.config.settings import Budget, Mode, Settings
from pilotfish.conversation.messages import Category
from pilotfish.policy.judge import judge
from pilotfish.policy.rules import CallFacts, Rule

MODES: tuple[Mode, ...] = ("plan", "ask", "edit", "auto")
ORDER = ("allow", "ask", "deny")
FACTS: list[CallFacts] = [
    *(command(text, walled=walled) for _, text in corpus() for walled in (True, False)),
    *(edit(path) for path in ("src/a.py", ".env", "/etc/passwd", ".git/config")),
    *(read(path) for path in ("src/a.py", ".env")),
    *(
        fetch(url)
        for url in ("https://pypi.org/simple", "https://evil.example/x", "http://localhost:8080/", "nonsense")
    ),
    CallFacts(tool="web_search", category=Category.RESEARCH, search="words"),
    *(CallFacts(tool="mcp", category=Category.EXECUTE, mcp=tool) for tool in ("github/search", "other/tool")),
]
PATTERNS = st.sampled_from(["*", "git push *", "npm test", "src/**", ".env", "pypi.org", "github/*"])
TOOLS = st.sampled_from(["*", "bash", "write", "execute", "read_only", "web_fetch", "mcp"])
RULES = st.lists(
    st.builds(Rule, decision=st.sampled_from(ORDER), tool=TOOLS, pattern=PATTERNS, scope=st.just("user")), max_size=4
)


def some(*values: str) -> st.SearchStrategy[list[str] | None]:
    return st.none() | st.lists(st.sampled_from(values), max_size=2, unique=True)


FILES = st.fixed_dictionaries(
    {
        "modes": some(*MODES),
        "sandbox": st.sampled_from([None, "required"]),
        "hosts": some("pypi.org", "*.example", "*"),
        "mcpServers": some("github", "other"),
        "rules": st.lists(
            st.fixed_dictionaries({"decision": st.sampled_from(["ask", "deny"]), "tool": TOOLS, "pattern": PATTERNS}),
            max_size=3,
        ),
    }
)
POLICIES = st.lists(FILES, max_size=2).map(lambda files: ManagedPolicy(tuple(map(PolicyFile.model_validate, files))))


@given(st.sampled_from(FACTS), st.sampled_from(MODES), RULES, st.booleans(), POLICIES, st.booleans())
@settings(max_examples=tries(200), deadline=None)
def test_a_managed_policy_never_makes_a_verdict_looser(
    facts: CallFacts, mode: Mode, rules: list[Rule], trusted: bool, policy: ManagedPolicy, broken: bool
) -> None:
    policy = ManagedPolicy(policy.files, "broken") if broken else policy
    free, bound = judge(facts, mode, rules, trusted), policy.judge(facts, mode, rules, trusted)
    assert ORDER.index(bound.decision) >= ORDER.index(free.decision)
    assert free.network or not bound.network
    assert bound.decision == "deny" or not broken


@given(
    st.sampled_from(MODES), st.lists(st.sampled_from(["pypi.org", "a.example:80", "*.a.example", "*"]), unique=True),
    st.sampled_from(["auto", "off"]), POLICIES,
)  # fmt: skip
def test_settings_are_never_looser(mode: Mode, hosts: list[str], sandbox: Any, policy: ManagedPolicy) -> None:
    wanted = Settings(mode=mode, allowed_hosts=tuple(hosts), sandbox=sandbox)
    got = policy.tighten(wanted)
    assert MODES.index(got.mode) <= MODES.index(mode)
    assert got.sandbox == "auto" or sandbox == "off"
    assert "*" in hosts or set(got.allowed_hosts) <= set(hosts)
    assert policy.tighten(got) == got


@pytest.mark.parametrize(
    ("policy", "names", "permitted"),
    [
        ({"providers": ["openai"]}, ["openai-chat:gpt-5", "openai:gpt-5"], True),
        ({"providers": ["anthropic"]}, ["openai:gpt-5"], False),
        ({"providers": []}, ["openai:gpt-5"], False),
        ({"models": ["openai:gpt-5*"]}, ["openai:gpt-5-mini"], True),
        ({"models": ["openai:gpt-5*"]}, ["openai:o3"], False),
        ({"providers": ["openai"], "models": ["*:gpt-5"]}, ["xai:gpt-5"], False),
        ({"providers": []}, ["demo"], True),
        ({}, ["xai:grok"], True),
    ],
)
def test_models_are_permitted_by_provider_and_name(policy: Any, names: list[str], permitted: bool) -> None:
    assert (ManagedPolicy((PolicyFile.model_validate(policy),)).model_fault(names) is None) is permitted


def test_an_address_is_compared_as_a_whole() -> None:
    policy = ManagedPolicy((PolicyFile(addresses=("https://api.a.example",)),))
    assert policy.address_fault("https://api.a.example/v1/") is None
    assert policy.address_fault(None) is None
    assert policy.address_fault("https://api.a.example.evil.org/v1") is not None


def test_a_day_s_budget_limits_a_turn_to_what_is_left() -> None:
    policy = ManagedPolicy((PolicyFile(budget=Budget(tokens=1_000)), PolicyFile(budget=Budget(cost=2.0))))
    assert policy.budget_left(Budget(tokens=5_000), 400, 0.5) == Budget(tokens=600, cost=1.5)
    assert policy.budget_left(Budget(tokens=100), 400, 0.5) == Budget(tokens=100, cost=1.5)
    assert policy.budget_left(Budget(), 1_000, 0.0) is None
    assert policy.budget_left(Budget(), 0, 2.5) is None


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "policy.toml"
    monkeypatch.setattr(managed, "policy_path", lambda: path)
    return path


def test_without_a_file_nothing_is_managed(place: Path) -> None:
    assert managed.managed_policy({}) == ManagedPolicy()
    assert managed.managed_policy({}).words() == ()


def test_a_changed_file_is_read_again_and_another_file_only_tightens(place: Path, tmp_path: Path) -> None:
    place.write_text('modes = ["ask", "plan"]\n')
    assert managed.managed_policy({}).mode("auto") == "ask"
    more = tmp_path / "more.toml"
    more.write_text('modes = ["auto", "edit", "plan"]\n')
    assert managed.managed_policy({managed.OVERRIDE: str(more)}).mode("auto") == "plan"
    place.write_text('modes = ["ask", "plan", "edit"]\n')
    assert managed.managed_policy({}).mode("auto") == "edit"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("modes = [", "cannot be read"),
        ('modes = ["yolo"]', "modes.0"),
        ("moods = []", "moods"),
        ('rules = [{ decision = "allow", tool = "bash", pattern = "*" }]', "rules.0.decision"),
        ('rules = [{ decision = "deny", tool = "bash", pattern = "" }]', "rules"),
    ],
)
def test_a_broken_file_stops_everything_and_says_why(place: Path, text: str, problem: str) -> None:
    place.write_text(text)
    policy = managed.managed_policy({})
    assert problem in (policy.problem or "")
    assert str(place) in (policy.problem or "")
    assert policy.model_fault(["demo"]) == policy.problem
    assert policy.judge(read("src/a.py"), "auto", (), True).decision == "deny"
    assert policy.words() == (policy.problem,)


def test_what_is_managed_is_said_in_words(place: Path) -> None:
    place.write_text(
        'providers = ["corp"]\nsandbox = "required"\nhosts = []\nbudget = { tokens = 5_000 }\n'
        'rules = [{ decision = "deny", tool = "bash", pattern = "git push *" }]\n'
    )
    words = (
        "providers: corp",
        "rules: 1",
        "sandbox: required",
        "hosts: none",
        "budget of a user and day: tokens 5,000",
    )
    assert managed.managed_policy({}).words() == words


def test_named_hosts_deny_a_search_of_the_web() -> None:
    search = CallFacts(tool="web_search", category=Category.RESEARCH, search="words")
    limited = ManagedPolicy((PolicyFile(hosts=("pypi.org",)),))
    assert limited.judge(search, "auto", (), True).decision == "deny"
    assert ManagedPolicy().judge(search, "auto", (), True).decision == "allow"
