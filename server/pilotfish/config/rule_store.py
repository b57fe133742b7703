"""Where standing rules and the trust of folders are kept: the user's own `config.toml`, never the repository.

    [[rules]]                                   # hold everywhere; read with the settings
    decision = "deny"
    tool = "bash"
    pattern = "git push *"

    [workspace."/home/me/project"]              # hold in that folder
    trusted = true
    rules = [{ decision = "allow", tool = "bash", pattern = "npm test *" }]

A trusted repository may bring rules of its own in `.pilotfish/rules.toml`: they can only tighten. Written atomically,
readable by the user alone, comments and order kept. A file that cannot be read loosens nothing: what would need a
rule to be refused is asked.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import tomllib
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pilotfish.config.settings import Settings, config_path
from pilotfish.errors import StorageError
from pilotfish.policy.rules import Rule, Scope, fault_of

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

REPOSITORY_FILE = Path(".pilotfish") / "rules.toml"
MAX_FILE = 256_000  # bytes; a longer file is not a list of rules a person wrote
MAX_RULES = 500

CAUTION = tuple(Rule(decision="ask", tool=tool, pattern="*", scope="user") for tool in ("write", "execute", "mcp"))
"""What holds while rules cannot be read: a deny rule may stand in that file."""


@dataclass(frozen=True, slots=True)
class FoundRules:
    """What a file says, and what in it could not be used."""

    rules: tuple[Rule, ...] = ()
    problems: tuple[str, ...] = ()


class RuleBook:
    """The rules and the trust that stand in the user's configuration. Every read sees the file as it is now."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._seen: dict[Path, tuple[tuple[int, ...], Mapping[str, Any] | str]] = {}
        self._unwritten: dict[str, bool] = {}
        """folder → the answer that could not be kept"""

    @property
    def path(self) -> Path:
        return self._path or config_path()

    def rules_for(self, folder: Path | None, settings: Settings, *, trusted: bool) -> tuple[Rule, ...]:
        """The standing rules in a folder: the user's, the workspace's and, if trusted, the repository's own."""
        set_ = (
            Rule(decision=rule.decision, tool=rule.tool, pattern=rule.pattern, scope="user") for rule in settings.rules
        )
        usable = (rule for rule in set_ if fault_of(rule) is None)
        brought = self._repository(folder) if trusted else FoundRules()
        return tuple(dict.fromkeys((*usable, *self._kept(folder).rules, *brought.rules)))

    def problems(self, folder: Path | None, *, trusted: bool) -> tuple[str, ...]:
        """What in the files could not be used, for a notice."""
        brought = self._repository(folder) if trusted else FoundRules()
        return (*self._kept(folder).problems, *brought.problems)

    def trust_of(self, folder: Path) -> bool | None:
        """What the user said of this folder or the nearest one above it; None: never asked."""
        table = self._config()
        entries = _tables(None if isinstance(table, str) else table.get("workspace"))
        for place in (_key(folder), *(str(parent) for parent in Path(_key(folder)).parents)):
            answer = self._unwritten.get(place, entries.get(place, {}).get("trusted"))
            if isinstance(answer, bool):
                return answer
        return None

    def trusts(self, folder: Path) -> bool:
        return self.trust_of(folder) is True

    def trust(self, folder: Path, trusted: bool) -> None:
        """Keep the user's answer for a folder. It holds in this process even when it cannot be written."""

        def change(document: TOMLDocument) -> bool:
            _entry(document, folder)["trusted"] = trusted
            return True

        self._unwritten[_key(folder)] = trusted
        self._change(change)
        del self._unwritten[_key(folder)]

    def add(self, rule: Rule, folder: Path | None) -> None:
        """Keep a rule of scope `workspace` (needs the folder) or `user`. Adding it twice keeps it once."""
        if fault := fault_of(rule):
            raise StorageError(f"That rule cannot be kept: {fault}", remedy="Change its pattern.")

        def change(document: TOMLDocument) -> bool:
            rules = _rules_of(document, rule.scope, folder)
            if any(_same(item, rule) for item in rules):
                return False
            _append(rules, rule)
            return True

        self._change(change)

    def remove(self, rule: Rule, folder: Path | None) -> bool:
        """Forget a rule. False: it does not stand there."""

        def change(document: TOMLDocument) -> bool:
            rules = _rules_of(document, rule.scope, folder)
            at = [index for index, item in enumerate(rules) if _same(item, rule)]
            for index in reversed(at):
                del rules[index]
            return bool(at)

        return self._change(change)

    # -- reading -----------------------------------------------------------------------------------------------

    def _config(self) -> Mapping[str, Any] | str:
        return self._read(self.path)

    def _read(self, path: Path) -> Mapping[str, Any] | str:
        """The file as a table, or why it cannot be read; read again only when it has changed."""
        try:
            seen = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            return f"{path.name} could not be read: {error.strerror or error}"
        mark = (seen.st_mtime_ns, seen.st_size, seen.st_ino, seen.st_mode)
        known = self._seen.get(path)
        if known is not None and known[0] == mark:
            return known[1]
        table = _load(path, seen)
        self._seen[path] = (mark, table)
        return table

    def _kept(self, folder: Path | None) -> FoundRules:
        """What the user's file says for everywhere and for this folder."""
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
        said = f"{REPOSITORY_FILE}: a repository's rules can only ask or deny; its allow rules are ignored"
        return FoundRules(tightening, (*found.problems, said))

    # -- writing -----------------------------------------------------------------------------------------------

    def _change(self, change: Callable[[TOMLDocument], bool]) -> bool:
        """Change the file in one step that other processes see whole. Gives back whether anything changed."""
        import tomlkit
        import tomlkit.exceptions

        path = Path(os.path.realpath(self.path))  # a link into a folder of dotfiles stays a link
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _held(path):
                text = path.read_text("utf-8") if path.exists() else ""
                document = tomlkit.parse(text)
                changed = change(document)
                if changed:
                    _write(path, tomlkit.dumps(document))  # pyright: ignore[reportUnknownMemberType] -- its `mapping` is untyped
        except (OSError, UnicodeDecodeError, tomlkit.exceptions.TOMLKitError, _ShapeError) as error:
            raise StorageError(
                f"This could not be kept in your configuration: {error}.",
                remedy=f"Look at {path.name} in your configuration folder.",
            ) from error
        self._seen.clear()
        return changed


@lru_cache(maxsize=64)
def _repository_file(folder: Path) -> Path:
    return folder / REPOSITORY_FILE


class _ShapeError(Exception):
    """The file holds something else where rules should stand."""


def _load(path: Path, seen: os.stat_result) -> Mapping[str, Any] | str:
    if not stat.S_ISREG(seen.st_mode):
        return f"{path.name} is not a file"
    if seen.st_size > MAX_FILE:
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
            problems.append(f"{where}: rule {number} is left out: {rule}")
        else:
            rules.append(rule)
    return FoundRules(tuple(rules), tuple(problems))


def rule_from(entry: object, scope: Scope) -> Rule | str:
    """A rule as a file or a client writes it, or what is wrong with it."""
    if not isinstance(entry, Mapping):
        return "it is not a table"
    fields = {str(name): value for name, value in cast("Mapping[object, object]", entry).items()}
    decision, tool, pattern = fields.get("decision"), fields.get("tool", "*"), fields.get("pattern", "*")
    if decision not in {"allow", "ask", "deny"}:
        return "its decision is not allow, ask or deny"
    if not isinstance(tool, str) or not isinstance(pattern, str):
        return "its tool and pattern are not texts"
    if unknown := set(fields) - {"decision", "tool", "pattern"}:
        return f"it has an unknown field {min(unknown)}"
    rule = Rule(decision=cast("Any", decision), tool=tool, pattern=pattern, scope=scope)
    return fault_of(rule) or rule


def _key(folder: Path) -> str:
    return os.path.realpath(folder)


def _tables(value: object) -> Mapping[str, Mapping[str, Any]]:
    if not isinstance(value, Mapping):
        return {}
    items = cast("Mapping[str, object]", value).items()
    return {name: cast("Mapping[str, Any]", table) for name, table in items if isinstance(table, Mapping)}


def _append(rules: list[Any], rule: Rule) -> None:
    """In the form the list already has: `[[rules]]` tables, or one line for each in an array."""
    import tomlkit
    from tomlkit.items import AoT

    tables = isinstance(cast("object", rules), AoT)
    item = cast("dict[str, str]", tomlkit.table() if tables else tomlkit.inline_table())
    item["decision"], item["tool"], item["pattern"] = rule.decision, rule.tool, rule.pattern
    rules.append(item)


def _same(item: object, rule: Rule) -> bool:
    found = rule_from(item, rule.scope)
    return found == rule


def _entry(document: TOMLDocument, folder: Path) -> dict[str, Any]:
    import tomlkit

    workspaces = document.setdefault("workspace", tomlkit.table(is_super_table=True))
    if not isinstance(workspaces, Mapping):
        raise _ShapeError("`workspace` is not a table")
    tables = cast("dict[str, Any]", workspaces)
    entry = tables.setdefault(_key(folder), tomlkit.table())
    if not isinstance(entry, Mapping):
        raise _ShapeError("`workspace` holds something other than folders")
    return cast("dict[str, Any]", tables[_key(folder)])


def _rules_of(document: TOMLDocument, scope: Scope, folder: Path | None) -> list[Any]:
    import tomlkit

    match scope:
        case "user":
            holder = cast("dict[str, Any]", document)
        case "workspace" if folder is not None:
            holder = _entry(document, folder)
        case _:
            raise _ShapeError(f"a rule of scope {scope} is not kept in a file")
    if "rules" not in holder:
        fresh = tomlkit.array()
        fresh.multiline(multiline=True)
        holder["rules"] = fresh
    rules = holder["rules"]
    if not isinstance(rules, list):
        raise _ShapeError("`rules` is not a list")
    return cast("list[Any]", rules)


@contextlib.contextmanager
def _held(path: Path) -> Generator[None]:
    """One writer at a time, over processes, where the system has file locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    lock = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _write(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # made with mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
