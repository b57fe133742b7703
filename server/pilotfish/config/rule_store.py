"""Reads and writes standing rules and trusted folders in the user's `config.toml`, never in the repository.

    [[rules]]                                   # apply everywhere; read with the settings
    decision = "deny"
    tool = "bash"
    pattern = "git push *"

    [workspace."/home/me/project"]              # apply in that folder
    trusted = true
    rules = [{ decision = "allow", tool = "bash", pattern = "npm test *", folder = "web" }]

An allow rule for a command holds in one directory: `folder`, relative to the workspace. Without it, and for rules that
were stored before `folder` existed, that is the root.

A trusted repository may have rules of its own in `.pilotfish/rules.toml`. They can only ask or deny, not allow.

The file is written atomically, is readable by the user only, and keeps its comments and order. While the file cannot be
read, every call that one of its deny rules might cover is asked about.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pilotfish.config.config_file import ConfigShapeError, change_config, new_entry
from pilotfish.config.settings import Settings, config_path
from pilotfish.errors import StorageError
from pilotfish.policy.rules import Rule, Scope, fault_of

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

REPOSITORY_FILE = Path(".pilotfish") / "rules.toml"
MAX_FILE = 256_000  # bytes; a longer file was not written by a person
MAX_RULES = 500

CAUTION = tuple(Rule(decision="ask", tool=tool, pattern="*", scope="user") for tool in ("write", "execute", "mcp"))
"""the rules that apply while the file cannot be read, because it may contain deny rules"""


@dataclass(frozen=True, slots=True)
class FoundRules:
    """The rules of a file, and messages about entries that could not be used."""

    rules: tuple[Rule, ...] = ()
    problems: tuple[str, ...] = ()


class RuleBook:
    """The rules and trusted folders in the user's configuration. Every read sees the current file."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._cache: dict[Path, tuple[tuple[int, ...], Mapping[str, Any] | str]] = {}
        self._unwritten: dict[tuple[str, str], bool] = {}
        """name and folder → an answer that is not in the file, because it could not be written"""

    @property
    def path(self) -> Path:
        return self._path or config_path()

    def rules_for(self, folder: Path | None, settings: Settings, *, trusted: bool) -> tuple[Rule, ...]:
        """The standing rules for a folder: the user's, the workspace's and, if `trusted`, the repository's."""
        from_settings = (
            Rule(decision=rule.decision, tool=rule.tool, pattern=rule.pattern, scope="user") for rule in settings.rules
        )
        usable = (rule for rule in from_settings if fault_of(rule) is None)
        from_repository = self._repository(folder) if trusted else FoundRules()
        return tuple(dict.fromkeys((*usable, *self._user_rules(folder).rules, *from_repository.rules)))

    def problems(self, folder: Path | None, *, trusted: bool) -> tuple[str, ...]:
        """Messages for the user about entries of the files that could not be used."""
        from_repository = self._repository(folder) if trusted else FoundRules()
        return (*self._user_rules(folder).problems, *from_repository.problems)

    def trust_of(self, folder: Path) -> bool | None:
        """The user's answer for this folder or its nearest parent with one. None if there is no answer."""
        return self._answer("trusted", folder)

    def trusts(self, folder: Path) -> bool:
        return self.trust_of(folder) is True

    def trust(self, folder: Path, trusted: bool) -> None:
        """Store the user's answer for a folder. It applies in this process even if it cannot be written."""
        self._store_answer("trusted", folder, trusted)

    def writes_edits(self, folder: Path) -> bool | None:
        """Whether the user lets edits be written to disk beside an editor that cannot save. None if not asked yet."""
        return self._answer("writeEdits", folder)

    def store_writes_edits(self, folder: Path, allowed: bool) -> None:
        self._store_answer("writeEdits", folder, allowed)

    def add(self, rule: Rule, folder: Path | None) -> None:
        """Store a rule of scope `workspace` (needs the folder) or `user`. A rule that exists is not added again."""
        if fault := fault_of(rule):
            raise StorageError(f"This rule cannot be stored: {fault}", remedy="Change its pattern.")

        def change(document: TOMLDocument) -> bool:
            rules = _rules_of(document, rule.scope, folder)
            if any(_same(item, rule) for item in rules):
                return False
            _append(rules, rule)
            return True

        self._change(change)

    def remove(self, rule: Rule, folder: Path | None) -> bool:
        """Remove a rule. Returns False if it does not exist."""

        def change(document: TOMLDocument) -> bool:
            rules = _rules_of(document, rule.scope, folder)
            matching = [index for index, item in enumerate(rules) if _same(item, rule)]
            for index in reversed(matching):
                del rules[index]
            return bool(matching)

        return self._change(change)

    # -- answers for a folder ------------------------------------------------------------------------------------

    def _answer(self, name: str, folder: Path) -> bool | None:
        table = self._config()
        entries = _tables(None if isinstance(table, str) else table.get("workspace"))
        for place in (_key(folder), *(str(parent) for parent in Path(_key(folder)).parents)):
            answer = self._unwritten.get((name, place), entries.get(place, {}).get(name))
            if isinstance(answer, bool):
                return answer
        return None

    def _store_answer(self, name: str, folder: Path, answer: bool) -> None:
        def change(document: TOMLDocument) -> bool:
            _entry(document, folder)[name] = answer
            return True

        self._unwritten[name, _key(folder)] = answer
        self._change(change)
        del self._unwritten[name, _key(folder)]

    # -- reading -----------------------------------------------------------------------------------------------

    def _config(self) -> Mapping[str, Any] | str:
        return self._read(self.path)

    def _read(self, path: Path) -> Mapping[str, Any] | str:
        """The parsed file, or a message why it cannot be read. It is parsed again only after a change."""
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            return f"{path.name} could not be read: {error.strerror or error}"
        version = (status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode)
        cached = self._cache.get(path)
        if cached is not None and cached[0] == version:
            return cached[1]
        table = _load(path, status)
        self._cache[path] = (version, table)
        return table

    def _user_rules(self, folder: Path | None) -> FoundRules:
        """The rules in the user's file that apply everywhere or in this folder."""
        table = self._config()
        if isinstance(table, str):
            return FoundRules(CAUTION, (table,))
        everywhere = _found(table, "user", "config.toml")
        folders = _tables(table.get("workspace"))
        entry = folders.get(_key(folder)) if folders and folder is not None else None
        here = _found(entry or {}, "workspace", "config.toml, workspace")
        return FoundRules((*everywhere.rules, *here.rules), (*everywhere.problems, *here.problems))

    def _repository(self, folder: Path | None) -> FoundRules:
        if folder is None:
            return FoundRules()
        table = self._read(_repository_file(folder))
        if isinstance(table, str):
            return FoundRules(problems=(table,))
        found = _found(table, "repository", str(REPOSITORY_FILE))
        tightening = tuple(rule for rule in found.rules if rule.decision != "allow")
        if len(tightening) == len(found.rules):
            return found
        ignored = f"{REPOSITORY_FILE}: a repository's rules can only ask or deny; its allow rules are ignored"
        return FoundRules(tightening, (*found.problems, ignored))

    # -- writing -----------------------------------------------------------------------------------------------

    def _change(self, change: Callable[[TOMLDocument], bool]) -> bool:
        """Change the file. Returns whether anything changed."""
        changed = change_config(self.path, change)
        self._cache.clear()
        return changed


@lru_cache(maxsize=64)
def _repository_file(folder: Path) -> Path:
    return folder / REPOSITORY_FILE


def _load(path: Path, status: os.stat_result) -> Mapping[str, Any] | str:
    if not stat.S_ISREG(status.st_mode):
        return f"{path.name} is not a file"
    if status.st_size > MAX_FILE:
        return f"{path.name} is too large"
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        return f"{path.name} could not be read: {error}"


def _found(table: Mapping[str, Any], scope: Scope, where: str) -> FoundRules:
    entries = table.get("rules", [])
    if not isinstance(entries, list):
        return FoundRules(problems=(f"{where}: rules is not a list",))
    rules: list[Rule] = []
    problems: list[str] = []
    for number, entry in enumerate(cast("list[object]", entries)[:MAX_RULES], start=1):
        rule = rule_from(entry, scope)
        if isinstance(rule, str):
            problems.append(f"{where}: rule {number} is ignored: {rule}")
        else:
            rules.append(rule)
    return FoundRules(tuple(rules), tuple(problems))


def rule_from(entry: object, scope: Scope) -> Rule | str:
    """Parse a rule from a file or a client. Returns a message if it is not valid."""
    if not isinstance(entry, Mapping):
        return "it is not a table"
    fields = {str(name): value for name, value in cast("Mapping[object, object]", entry).items()}
    decision, tool, pattern = fields.get("decision"), fields.get("tool", "*"), fields.get("pattern", "*")
    folder = fields.get("folder", "")
    if decision not in {"allow", "ask", "deny"}:
        return "its decision is not allow, ask or deny"
    if not isinstance(tool, str) or not isinstance(pattern, str) or not isinstance(folder, str):
        return "its tool, pattern and folder must be strings"
    if unknown := set(fields) - {"decision", "tool", "pattern", "folder"}:
        return f"it has an unknown field {min(unknown)}"
    rule = Rule(decision=cast("Any", decision), tool=tool, pattern=pattern, scope=scope, folder=folder)
    return fault_of(rule) or rule


def _key(folder: Path) -> str:
    return os.path.realpath(folder)


def _tables(value: object) -> Mapping[str, Mapping[str, Any]]:
    if not isinstance(value, Mapping):
        return {}
    items = cast("Mapping[str, object]", value).items()
    return {name: cast("Mapping[str, Any]", table) for name, table in items if isinstance(table, Mapping)}


def _append(rules: list[Any], rule: Rule) -> None:
    item = new_entry(rules)
    item["decision"], item["tool"], item["pattern"] = rule.decision, rule.tool, rule.pattern
    if rule.folder:
        item["folder"] = rule.folder
    rules.append(item)


def _same(item: object, rule: Rule) -> bool:
    found = rule_from(item, rule.scope)
    return found == rule


def _entry(document: TOMLDocument, folder: Path) -> dict[str, Any]:
    import tomlkit

    workspaces = document.setdefault("workspace", tomlkit.table(is_super_table=True))
    if not isinstance(workspaces, Mapping):
        raise ConfigShapeError("`workspace` is not a table")
    tables = cast("dict[str, Any]", workspaces)
    entry = tables.setdefault(_key(folder), tomlkit.table())
    if not isinstance(entry, Mapping):
        raise ConfigShapeError("an entry of `workspace` is not a table")
    return cast("dict[str, Any]", tables[_key(folder)])


def _rules_of(document: TOMLDocument, scope: Scope, folder: Path | None) -> list[Any]:
    import tomlkit

    match scope:
        case "user":
            holder = cast("dict[str, Any]", document)
        case "workspace" if folder is not None:
            holder = _entry(document, folder)
        case _:
            raise ConfigShapeError(f"a rule of scope {scope} cannot be stored in a file")
    if "rules" not in holder:
        fresh = tomlkit.array()
        fresh.multiline(multiline=True)
        holder["rules"] = fresh
    rules = holder["rules"]
    if not isinstance(rules, list):
        raise ConfigShapeError("`rules` is not a list")
    return cast("list[Any]", rules)
