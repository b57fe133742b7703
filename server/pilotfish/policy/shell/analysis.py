"""Analyses a command line for policy: its commands, the paths they read and write, and whether it is destructive.

There are two analyses. The strict one (`parser.parse` and `read_only_commands.py`) shows that a line only reads, as far
as its text can show it. The wide one (`nested_commands.py`) finds every command that may run, including wrapped and
nested ones. It is used for deny and ask rules, for explanations and to decide in which sandbox a line runs without a
question (`effects.py`). It proves nothing.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from pilotfish.policy.destructive import destroys
from pilotfish.policy.shell import nested_commands, parser
from pilotfish.policy.shell import plain_commands as plain
from pilotfish.policy.shell.arguments import Doubt, Read
from pilotfish.policy.shell.effects import (
    DELETING_CODE,
    Effect,
    Finding,
    effect_of,
    runs_its_input,
    runs_no_code,
    worst,
)
from pilotfish.policy.shell.git_commands import folder_of, joined
from pilotfish.policy.shell.heredocs import without_bodies
from pilotfish.policy.shell.read_only_commands import read_only
from pilotfish.text.display_safe import one_line

MAX_SHOWN = 30  # lines of an explanation


@dataclass(frozen=True, slots=True)
class Touched:
    """A path in a command as it was written, relative to the directory in which the line starts."""

    path: str
    access: Literal["read", "write"]
    recursive: bool = False
    """The content of all files below it is read."""
    hidden: bool = True
    """If recursive: hidden files are read too."""
    only: tuple[str, ...] = ()
    """If recursive: only files whose names match one of these globs are read. Empty means all files."""
    follows: bool = False
    """If recursive: links below it are followed."""
    sure: bool = True
    """It is certain that the command only reads the path, or that it writes it. Otherwise a program gets its name."""

    def meets(self, name: str) -> bool:
        """Whether a recursive read includes a file with this name."""
        if name.startswith(".") and not self.hidden:
            return False
        return not self.only or any(fnmatch.fnmatch(name, pattern) for pattern in self.only)


@dataclass(frozen=True, slots=True)
class Part:
    """One simple command of a line that the strict parser accepted."""

    words: tuple[str, ...]
    doubt: str | None
    """Why the command may do more than read. None if it only reads."""
    touched: tuple[Touched, ...] = ()
    """The paths that the command names."""
    writes: tuple[Touched, ...] = ()
    """The files to which its output is redirected."""
    fed: bool = False
    """It has piped or redirected input, and its effect may depend on that input."""


@dataclass(frozen=True, slots=True)
class Study:
    """The result of both analyses of a command line."""

    text: str
    parts: tuple[Part, ...]
    """Empty if the line is outside the strict grammar."""
    unreadable: str | None
    found: tuple[tuple[str, ...], ...]
    """Every command that may run, including wrapped ones, by the wide analysis. Names have no directory."""
    shown: tuple[tuple[str, ...], ...]
    touched: tuple[Touched, ...]
    """Every path that the line names, by the strict analysis or else the wide one."""
    destroys: str | None
    """Why the line is denied in every mode. None if it is not destructive."""
    cut: bool = False
    """The line was too long to analyse completely, so it may run other commands too."""
    findings: tuple[Finding, ...] = (Finding(Effect.HIDDEN, "it is too long to check"),)
    """What the commands of the line are usually run for."""

    @property
    def effect(self) -> Effect:
        """The most harmful effect of its commands."""
        return worst(self.findings).effect

    @property
    def is_plain(self) -> bool:
        """Whether it is one of the few fixed commands that need no sandbox."""
        return self.only_reads and len(self.parts) == 1 and plain.is_plain(self.text, self.parts[0].touched)

    @property
    def only_reads(self) -> bool:
        return bool(self.parts) and all(part.doubt is None and not part.writes for part in self.parts)

    @property
    def runs_no_code(self) -> bool:
        """Whether it reads, and only by programs of the system that run no code of the folder."""
        return self.only_reads or (self.effect is Effect.READS and all(map(runs_no_code, self.found)))

    @property
    def doubt(self) -> str:
        """Why the line may do more than read. Empty if it only reads."""
        if self.unreadable is not None:
            return self.unreadable
        doubts = [part.doubt for part in self.parts if part.doubt is not None]
        written = [f"it writes to {touch.path}" for part in self.parts for touch in part.writes]
        return one_line((*doubts, *written, "")[0])


@lru_cache(maxsize=256)
def study(command: str) -> Study:
    """Analyse a command line with both analyses. Never raises."""
    line = parser.parse(command)
    if isinstance(line, parser.Unreadable):
        return _wide_study(command, line.reason)
    returns = returning(command)
    parts = _parts(line)
    found = nested_commands.unwrap(part.words for part in parts)
    named = (touch for part in parts if part.words not in returns for touch in (*part.touched, *part.writes))
    touched = tuple(dict.fromkeys((*named, *_climbs([part.words for part in parts], returns))))
    refusal = destroys(found, [touch.path for part in parts for touch in part.writes])
    located = {part.words[0].rsplit("/", 1)[-1]: part.words[0] for part in parts if "/" in part.words[0]}
    written = next((touch.path for part in parts for touch in part.writes), None)
    findings = _findings(command, found, located, written)
    return Study(command, parts, None, found, found, touched, refusal, findings=findings)


def _wide_study(command: str, unreadable: str) -> Study:
    wide = nested_commands.search(command, without_bodies(command))
    written = [path for path, access in wide.paths if access == "write"]
    refusal = destroys(wide.found, written, command)
    if wide.whole and not wide.cut:
        findings = _findings(command, wide.shown, wide.located, written[0] if written else None)
    else:
        findings = (Finding(Effect.HIDDEN, "it could not be read to its end"), *map(effect_of, wide.found))
    return Study(
        command,
        (),
        unreadable,
        wide.found,
        wide.shown,
        _wide_touched(wide, returning(command)),
        refusal,
        wide.cut,
        findings,
    )


_PROGRAM_VARIABLES = re.compile(
    r"(?:^|[\s;&|(])(?!(?:NODE_ENV|PYTHON(?:PATH|UNBUFFERED|DONTWRITEBYTECODE|WARNINGS|HASHSEED|IOENCODING|UTF8))=)"
    r"(?!(?:GIT_)?PAGER=(?:cat|''|\"\")?(?:\s|$)|GIT_(?:TERMINAL_PROMPT|OPTIONAL_LOCKS)=[01](?:\s|$))"
    r"(?:PATH|IFS|ENV|PAGER|EDITOR|SHELL|HOME|PS4|PROMPT_COMMAND|LESSOPEN|RIPGREP_CONFIG_PATH"
    r"|(?:LD|DYLD|GIT|BASH|PYTHON|NODE|PERL|RUBY)_?[A-Z0-9_]*)\+?="
)
"""Assignments to variables that change which programs run."""


def _findings(
    text: str, commands: tuple[tuple[str, ...], ...], located: dict[str, str], written: str | None
) -> tuple[Finding, ...]:
    findings = [effect_of(words, located.get(words[0], "")) for words in commands]
    if written is not None:
        findings.append(Finding(Effect.CHANGES, f"it writes to {written}"))
    if _PROGRAM_VARIABLES.search(text):
        findings.append(Finding(Effect.CHANGES, "it sets a variable that decides which programs run"))
    if not commands or not all(char.isprintable() or char in "\n\t" for char in text):
        findings.append(Finding(Effect.HIDDEN, "it contains invisible characters"))
    if any(map(runs_its_input, commands)) and DELETING_CODE.search(text):
        findings.append(Finding(Effect.DELETES, "its code deletes or publishes something"))
    return tuple(dict.fromkeys(findings))


def _only_names(words: tuple[str, ...]) -> bool:
    """Whether a command does not change the files that it names."""
    recorded = words[0] == "git" and not {"mv", "apply", "am", "checkout", "restore"} & set(words)
    return recorded or words[0] in {"source", "."} or effect_of(words).effect is Effect.READS


def returning(text: str) -> frozenset[tuple[str, ...]]:
    """Return the commands `cd ..` of a line `cd DIR && … && cd .. && …` that lead back to where they came from. Every
    `cd` must stand alone between `&&`, so that the one before it has succeeded."""
    steps = [step.strip() for step in text.split("&&")]
    if re.search(r"[;(){}`$\n\\]|\|\||(?<![&>])&(?!&)", text):
        return frozenset()
    entered, found = "", set[tuple[str, ...]]()
    for step in steps:
        if not re.search(r"\b(?:cd|pushd|popd)\b", step):
            continue
        move = re.fullmatch(r"cd ([\w.][\w./-]*)", step)
        if move is None:
            return frozenset()
        entered = posixpath.normpath(posixpath.join(entered, move[1]))
        if entered.startswith(".."):
            return frozenset()
        if ".." in move[1].split("/"):
            found.add(("cd", move[1]))
    return frozenset(found)


def _climbs(commands: Sequence[tuple[str, ...]], returns: frozenset[tuple[str, ...]]) -> tuple[Touched, ...]:
    """Return the folder above the start of a line if a later `cd` may lead there: nobody knows from where it starts."""
    moves = [words for words in commands if words[0] in {"cd", "pushd"}]
    climbs = any(".." in word.split("/") for words in moves[1:] if words not in returns for word in words[1:])
    return (Touched("..", "read"),) if climbs else ()


def _wide_touched(wide: nested_commands.NestedCommands, returns: frozenset[tuple[str, ...]]) -> tuple[Touched, ...]:
    """Return the paths of a line outside the strict grammar: exact ones of commands that only read, and every word of
    the others that looks like a path."""
    touched: dict[Touched, None] = {}
    for path, access in wide.paths:
        touched[Touched(path, access, sure=access == "write")] = None
    if not (wide.whole and not wide.cut):
        return tuple(touched)
    written = [touch for touch in touched if touch.access == "write"]
    touched.clear()
    for words in wide.shown:
        verdict = read_only(words)
        if words in returns:
            continue
        if isinstance(verdict, Read):
            read = verdict
            touched.update(
                (
                    Touched(
                        nested_commands.at_home(path), "read", read.recursive, read.hidden, read.only, read.follows
                    ),
                    None,
                )
                for path in read.paths
            )
        else:
            sure = _only_names(words)
            touched.update((Touched(path, access, sure=sure), None) for path, access in nested_commands.paths_in(words))
    return (*touched, *written)


def explain(seen: Study) -> tuple[str, ...]:
    """Return what would run as display-safe text, one line for each command."""
    if not seen.parts:
        lines = [" ".join(words) for words in seen.shown]
        lines += [f"writes to {touch.path}" for touch in seen.touched if touch.access == "write"]
    else:
        lines = [_explained(part) for part in seen.parts]
        outer = {(part.words[0].rsplit("/", 1)[-1], *part.words[1:]) for part in seen.parts}
        lines += [f"runs {quoted(words)}" for words in seen.found if words not in outer]
    if len(lines) > MAX_SHOWN:
        lines = [*lines[:MAX_SHOWN], f"and {len(lines) - MAX_SHOWN} more"]
    return tuple(map(one_line, lines))


def addresses(text: str) -> tuple[str, ...]:
    """Return the URLs in a command line."""
    return tuple(dict.fromkeys(re.findall(r"(?:https?|ftp|wss?)://[^\s'\"<>|;&()`]+", text, re.IGNORECASE)))


_MENTIONS = re.compile(
    r"""(?:(?:~|\$HOME|\$\{HOME\}|/home/[\w.-]+|/root|/Users/[\w.-]+)/\.(?:ssh|aws|gnupg|kube|docker|netrc|azure|git-credentials
    |npmrc|pypirc|config/(?:gh|gcloud))\b
    |\bid_(?:rsa|ed25519|ecdsa|dsa)\b|/etc/(?:shadow|passwd|sudoers|ssh)\b|(?<![\w.-])\.env(?:\.(?!example|sample|template)\w+)?(?![\w.-]))
    [^\s'")]*""",
    re.VERBOSE,
)


def mention(seen: Study) -> str | None:
    """Return a well-known secret path that a line mentions inside other text, such as a script argument."""
    found = None if seen.only_reads else _MENTIONS.search(seen.text)
    return found.group() if found else None


def git_folders(seen: Study) -> tuple[str, ...]:
    """Return the directories in which git would run, relative to the start directory of the line.

    If the strict parser rejected the line, these are the start directory and every directory that the line enters.
    """
    folders: dict[str, None] = {}
    if not seen.parts:
        if any(words[0] == "git" for words in seen.found):
            folders["."] = None
            for words in seen.found:
                if words[0] == "git" and not isinstance(where := folder_of(words[1:]), Doubt) and where[0]:
                    folders[where[0]] = None
                elif words[0] in {"cd", "pushd"} and len(words) > 1:
                    folders[words[-1]] = None
        return tuple(folders)
    start, _ = _directory([part.words for part in seen.parts])
    for part in seen.parts:
        if part.words[0] == "git":
            where = folder_of(part.words[1:])
            inner = "" if isinstance(where, Doubt) else where[0]
            folders[joined(start, inner or ".")] = None
    return tuple(folders)


def start_folder(seen: Study) -> str:
    """Return DIR of a line `cd DIR && …`. Empty if the line does not change the directory."""
    return _directory([part.words for part in seen.parts])[0]


def seen_from(folder: str, path: str) -> str:
    return joined(folder, path)


def quoted(words: tuple[str, ...]) -> str:
    """Return the words as a command line, quoted for the shell."""
    plain = re.compile(r"[A-Za-z0-9_./,:@%+=^-]+")
    return " ".join(word if plain.fullmatch(word) else "'" + word.replace("'", "'\\''") + "'" for word in words)


def _explained(part: Part) -> str:
    notes = [f"writes to {touch.path}" for touch in part.writes]
    if part.doubt is not None or not notes:
        notes.append(part.doubt or "only reads")
    return f"{quoted(part.words)}: {'; '.join(notes)}"


def _parts(line: parser.CommandLine) -> tuple[Part, ...]:
    directory, lost = _directory([command.words for command in line.commands], line)
    return tuple(_part(command, directory if at else "", lost=lost) for at, command in enumerate(line.commands))


def _part(command: parser.Simple, here: str, *, lost: bool) -> Part:
    verdict = read_only(command.words)
    doubt = "it changes the directory in a way that cannot be checked" if lost else None
    touched: list[Touched] = []
    writes: list[Touched] = []
    match verdict:
        case Read(paths, recursive, hidden, only, follows):
            touched += [Touched(joined(here, path), "read", recursive, hidden, only, follows) for path in paths]
        case Doubt(reason):
            doubt = reason
            sure = _only_names(command.words)
            touched += [
                Touched(joined(here, path), access, sure=sure)
                for path, access in nested_commands.paths_in(command.words)
            ]
    for redirect in command.redirects:
        if redirect.op == ">&" or redirect.target == "/dev/null":
            continue
        if redirect.target.startswith("/dev/"):
            doubt = doubt or f"it uses the device {redirect.target}"
        place = joined(here, redirect.target)
        if redirect.op == "<":
            touched.append(Touched(place, "read"))
        else:
            writes.append(Touched(place, "write"))
    fed = command.after == "|" or any(redirect.op == "<" for redirect in command.redirects)
    return Part(command.words, doubt, tuple(touched), tuple(writes), fed)


def _directory(commands: list[tuple[str, ...]], line: parser.CommandLine | None = None) -> tuple[str, bool]:
    """Return DIR of a line `cd DIR && …`, and whether the line has a cd that does not have this form."""
    moves = [at for at, words in enumerate(commands) if words[0] == "cd"]
    if not moves:
        return "", False
    if line is not None:
        rest = [command.after for command in line.commands[1:]]
        followed = not rest or (rest[0] == "&&" and all(after in {"&&", "|"} for after in rest))
        if moves != [0] or not followed:
            return "", True
    return (commands[0][1], False) if moves == [0] and len(commands[0]) == 2 else ("", True)
