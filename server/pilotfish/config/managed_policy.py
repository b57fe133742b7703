"""The policy of an organisation: a file outside the user's reach that can only restrict.

    # /etc/pilotfish/policy.toml
    providers = ["anthropic", "corp"]          # whose models may be used
    models = ["anthropic:claude-*", "corp:*"]
    addresses = ["https://api.anthropic.com", "https://models.corp.example"]
    modes = ["ask", "plan", "edit"]
    sandbox = "required"                       # no command runs without one
    hosts = ["pypi.org", "*.corp.example"]     # for commands and `web_fetch`
    mcpServers = ["github"]
    rules = [{ decision = "deny", tool = "bash", pattern = "git push *" }]
    budget = { tokens = 20_000_000, cost = 50 }  # of one user and day

What the file does not name is left to the user. A file that cannot be read or used stops every turn with its reason,
because it may forbid anything. `PILOTFISH_POLICY` names one more file, for tests; it applies beside the first, so it
cannot loosen it.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from pilotfish.config.settings import AllowedHost, Budget, Mode, Settings
from pilotfish.policy.hosts import host_of
from pilotfish.policy.judge import judge
from pilotfish.policy.rules import CallFacts, Rule, fault_of, host_matches
from pilotfish.policy.verdict import Verdict

REMEDY = "Your organisation's policy decides this; ask its administrator."
OVERRIDE = "PILOTFISH_POLICY"
GUIDE = "demo"
"""the scripted model of this program, which asks no provider"""
_PORT = re.compile(r":[0-9]{1,5}$")
_STRICTEST_FIRST: Sequence[Mode] = ("plan", "ask", "edit", "auto")


class ManagedRule(BaseModel):
    """A rule of the organisation. It can ask or deny."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    decision: Literal["ask", "deny"]
    tool: str = "*"
    pattern: str = "*"


class PolicyFile(BaseModel):
    """One file, camelCase as in `config.toml`. An absent field restricts nothing."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, extra="forbid")

    providers: tuple[str, ...] | None = None
    """prefixes of model names: providers, and endpoints of the user's `endpoints`"""
    models: tuple[str, ...] | None = None
    """patterns of whole model names, such as `openai:gpt-*`"""
    addresses: tuple[str, ...] | None = None
    """beginnings of the addresses that models may be asked at"""
    modes: tuple[Mode, ...] | None = None
    rules: tuple[ManagedRule, ...] = ()
    sandbox: Literal["required"] | None = None
    hosts: tuple[AllowedHost, ...] | None = None
    """the only hosts that commands and `web_fetch` may reach; commands then need a sandbox"""
    mcp_servers: tuple[str, ...] | None = None
    """names of the MCP servers that may be used"""
    budget: Budget = Budget()


@dataclass(frozen=True, slots=True)
class ManagedPolicy:
    """The files that apply together, and why one of them cannot be used."""

    files: tuple[PolicyFile, ...] = ()
    problem: str | None = None

    def tighten(self, settings: Settings) -> Settings:
        """The settings as far as the policy permits them."""
        if not self.files:
            return settings
        hosts = settings.allowed_hosts
        for file in self.files:
            if file.hosts is not None:
                hosts = _both(hosts, file.hosts)
        sandbox = "auto" if self._needs_sandbox else settings.sandbox
        return settings.model_copy(
            update={"mode": self.mode(settings.mode), "sandbox": sandbox, "allowed_hosts": hosts}
        )

    def mode(self, wanted: Mode) -> Mode:
        """The loosest permitted mode that is not looser than the wanted one."""
        stricter = _STRICTEST_FIRST[: _STRICTEST_FIRST.index(wanted) + 1]
        permitted: list[Mode] = [
            mode for mode in stricter if all(file.modes is None or mode in file.modes for file in self.files)
        ]
        return permitted[-1] if permitted else "plan"

    def model_fault(self, names: Iterable[str]) -> str | None:
        """Why a model may not be used, which has these names (`openai-chat:gpt-5` is `openai:gpt-5` too)."""
        if self.problem is not None:
            return self.problem
        spelled = list(names)
        if spelled == [GUIDE]:
            return None
        for file in self.files:
            prefixes = {name.partition(":")[0] for name in spelled}
            if file.providers is not None and not prefixes & set(file.providers):
                return f"{spelled[0]} is of a provider that is not permitted; permitted: {_list(file.providers)}"
            patterns = file.models or ()
            if file.models is not None and not any(fnmatchcase(name, each) for name in spelled for each in patterns):
                return f"{spelled[0]} is not permitted; permitted: {_list(file.models)}"
        return None

    def address_fault(self, address: str | None) -> str | None:
        """Why a model may not be asked at an address. None is a model in this process."""
        for file in self.files:
            if address is not None and file.addresses is not None and not _begins(address, file.addresses):
                return f"models may not be asked at {address}; permitted: {_list(file.addresses)}"
        return None

    def server_fault(self, name: str) -> str | None:
        """Why an MCP server may not be used."""
        refused = any(file.mcp_servers is not None and name not in file.mcp_servers for file in self.files)
        return "the policy of your organisation does not permit it" if refused or self.problem else None

    def judge(self, facts: CallFacts, mode: Mode, rules: Sequence[Rule], trusted: bool) -> Verdict:
        """The verdict of policy on a call, never looser than without this policy."""
        verdict = judge(facts, self.mode(mode), (*rules, *self.rules), trusted)
        if (fault := self._call_fault(facts)) is not None:
            return replace(verdict, decision="deny", reason=fault, rule=None, network=False, can_be_tried=False)
        if any(file.hosts is not None for file in self.files):
            return replace(verdict, network=False)  # it reaches the permitted hosts only
        return verdict

    @property
    def rules(self) -> tuple[Rule, ...]:
        return tuple(
            Rule(decision=rule.decision, tool=rule.tool, pattern=rule.pattern, scope="managed")
            for file in self.files
            for rule in file.rules
        )

    def budget_left(self, wanted: Budget, tokens: int, cost: float) -> Budget | None:
        """The budget of a turn of a user who has used this much today. None: nothing is left."""
        limits = [file.budget for file in self.files]
        tokens_left = [each.tokens - tokens for each in limits if each.tokens is not None]
        cost_left = [each.cost - cost for each in limits if each.cost is not None]
        if min((*tokens_left, *cost_left), default=1) <= 0:
            return None
        return Budget(
            tokens=min((*tokens_left, *([wanted.tokens] if wanted.tokens else ())), default=None),
            cost=min((*cost_left, *([wanted.cost] if wanted.cost else ())), default=None),
        )

    @property
    def limits_use(self) -> bool:
        return any(file.budget != Budget() for file in self.files)

    def words(self) -> tuple[str, ...]:
        """What is managed, for the user."""
        if self.problem is not None:
            return (self.problem,)
        lines: list[str] = []
        for file in self.files:
            for name, value in file.model_dump(exclude_defaults=True, by_alias=True).items():
                match value:
                    case dict():
                        shown = ", ".join(f"{limit} {count:,}" for limit, count in file.budget if count is not None)
                        lines.append(f"{name} of a user and day: {shown}")
                    case _ if name == "rules":
                        lines.append(f"rules: {len(file.rules)}")
                    case str():
                        lines.append(f"{name}: {value}")
                    case _:
                        lines.append(f"{name}: {_list(value)}")
        return tuple(lines)

    @property
    def _needs_sandbox(self) -> bool:
        return any(file.sandbox is not None or file.hosts is not None for file in self.files)

    def _call_fault(self, facts: CallFacts) -> str | None:
        if self.problem is not None:
            return self.problem
        if facts.command is not None and self._needs_sandbox and not (facts.walled and facts.confined):
            return "the policy of your organisation requires a sandbox for commands, and this machine has none"
        if facts.mcp is not None and (fault := self.server_fault(facts.mcp.partition("/")[0])):
            return f"the MCP server may not be used: {fault}"
        host = None if facts.url is None else host_of(facts.url)
        for file in self.files:
            if file.hosts is None:
                continue
            # Which hosts a search reads is not known before.
            if facts.search is not None or (facts.url is not None and not _reaches(host, file.hosts)):
                return f"the policy of your organisation permits these hosts only: {_list(file.hosts)}"
        return None


def policy_path() -> Path:
    """Where the administrator of this machine puts the policy."""
    if sys.platform == "win32":
        return Path(os.environ.get("PROGRAMDATA", r"C:\ProgramData"), "pilotfish", "policy.toml")
    if sys.platform == "darwin":
        return Path("/Library/Application Support/pilotfish/policy.toml")
    return Path("/etc/pilotfish/policy.toml")


def managed_policy(environment: Mapping[str, str] = os.environ) -> ManagedPolicy:
    """The policy as it is now. A file that has not changed is not read again."""
    paths = [policy_path()]
    if override := environment.get(OVERRIDE):
        paths.append(Path(override))
    found = [_read(path, _signature(path)) for path in paths]
    if override and _signature(paths[-1]) is None:
        found.append(f"The policy {override} does not exist.")
    problem = next((each for each in found if isinstance(each, str)), None)
    return ManagedPolicy(tuple(each for each in found if isinstance(each, PolicyFile)), problem)


def _signature(path: Path) -> tuple[int, ...] | None:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return (error.errno or 0,)
    return (stat.st_mtime_ns, stat.st_size, stat.st_ino)


@functools.lru_cache(maxsize=8)
def _read(path: Path, signature: tuple[int, ...] | None) -> PolicyFile | str | None:
    """The file, or what is wrong with it. None if there is none. `signature` makes a changed file be read again."""
    if signature is None:
        return None
    try:
        file = PolicyFile.model_validate(tomllib.loads(path.read_text("utf-8")))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"The policy {path} cannot be used: {'.'.join(map(str, first['loc']))}: {first['msg']}."
    except (OSError, ValueError) as error:
        return f"The policy {path} cannot be read: {error}."
    for rule in file.rules:
        if fault := fault_of(Rule(decision=rule.decision, tool=rule.tool, pattern=rule.pattern, scope="managed")):
            return f"The policy {path} cannot be used: rules: {fault}."
    return file


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _begins(address: str, permitted: Sequence[str]) -> bool:
    """Whether an address is one of these or below one: `https://a.example` does not permit `https://a.example.org`."""
    whole = address.rstrip("/") + "/"
    return any(whole.startswith(each.rstrip("/") + "/") for each in permitted)


def _reaches(host: str | None, permitted: Sequence[str]) -> bool:
    return host is not None and any(host_matches(_without_port(each), host) for each in permitted)


def _without_port(host: str) -> str:
    return _PORT.sub("", host).strip("[]")


def _both(wanted: Sequence[str], permitted: Sequence[str]) -> tuple[str, ...]:
    """The hosts that both lists name."""
    if "*" in wanted:
        return tuple(permitted)
    return tuple(host for host in wanted if any(_covers(each, host) for each in permitted))


def _covers(permitted: str, wanted: str) -> bool:
    """Whether everything that `wanted` names is named by `permitted`, with the port if it has one."""
    if permitted in ("*", wanted):
        return True
    bare = _without_port(wanted)
    return permitted == bare or (permitted.startswith("*.") and bare.endswith(permitted[1:]))
