"""The wide analysis of a command line: finds every command that may run, including nested ones.

It is used for deny and ask rules, for destructive commands and for explanations. It prefers to find too much, and it
never proves that a command is harmless: only `parser.parse` and `read_only_commands.py` do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pilotfish.policy.shell import syntax_tree

MAX_FOUND = 300
MAX_WORDS = 300  # of one command
MAX_DEPTH = 6
MAX_TEXT = 20_000  # characters; the rest is ignored, and `NestedCommands.cut` is set

Words = tuple[str, ...]
Named = tuple[str, Literal["read", "write"]]
"""A path that a command names, and how the command accesses it."""

_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "rbash"})
# Each wrapper, with the options that take the next word as their value.
_WRAPPERS: dict[str, str] = {
    "env": "-u --unset -C --chdir",
    "sudo": "-u -g -h -p -C -D -R -T -U -r -t --user --group --host --prompt --chdir --chroot",
    "doas": "-u -C",
    "timeout": "-k -s --kill-after --signal",
    "gtimeout": "-k -s --kill-after --signal",
    "nice": "-n --adjustment",
    "ionice": "-c -n -p",
    "chrt": "",
    "taskset": "",
    "nohup": "",
    "setsid": "",
    "stdbuf": "-i -o -e",
    "time": "-f -o",
    "command": "",
    "builtin": "",
    "exec": "-a",
    "coproc": "",
    "xargs": "-n -I -L -P -d -s -a -E --max-args --max-procs --delimiter --replace",
    "parallel": "-j --jobs",
    "watch": "-n --interval",
    "strace": "-o -e -p -s",
    "ltrace": "-o -e -p -s",
    "unbuffer": "",
    "caffeinate": "-t -w",
    "chroot": "",
    "unshare": "",
    "nsenter": "-t",
    "flock": "-w -E",
    "busybox": "",
    "toybox": "",
    "runuser": "-u",
    "systemd-run": "-p -u",
    "firejail": "",
    "bwrap": "",
    "ssh": "-p -i -l -o -F -L -R -D -J -b -c -e -m -w -W -S -O -Q -I -B -E",
    "npx": "-p --package",
    "pkexec": "--user",
    "!": "",
    "{": "",
    "then": "",
    "do": "",
    "else": "",
    "if": "",
    "while": "",
    "until": "",
    "elif": "",
}
_OWN_OPERANDS = {"timeout": 1, "gtimeout": 1, "chroot": 1, "flock": 1, "ssh": 1, "taskset": 1, "chrt": 1}
"""The number of operands of the wrapper itself, before the command."""
_GIT_VALUES = frozenset({"-c", "-C", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"})
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")
_NAME = re.compile(r"[A-Za-z0-9:!\[.]")


@dataclass(frozen=True, slots=True)
class NestedCommands:
    """The result of the wide analysis."""

    found: tuple[Words, ...]
    """Every command that may run."""
    shown: tuple[Words, ...]
    """The commands to show to the user: those that the bash grammar found, with their wrapped commands."""
    paths: tuple[Named, ...]
    cut: bool
    """Part of the text was not analysed."""
    whole: bool = False
    """The bash grammar parsed the whole text, so `shown` has every command in it."""
    located: dict[str, str] = field(default_factory=dict[str, str])
    """Name → path of the commands that are named by a path; `shown` has the name without the directory."""


def search(text: str, code: str | None = None) -> NestedCommands:
    """Search a text with the bash grammar, and by splitting it wherever a command could begin. `code` is the text
    without the bodies of its heredocs."""
    code = text if code is None else code
    too_long, text = len(text) > MAX_TEXT, text[:MAX_TEXT]
    tree = syntax_tree.read(code)
    shown = _Finder()
    for raw in tree.commands:
        shown.command(tuple(map(bare, raw)))
    found = _Finder(shown.out)
    found.text(text)
    paths: dict[Named, None] = {}
    paths.update(dict.fromkeys(paths_in(("", *dict.fromkeys(word for words in found.out for word in words[1:])))))
    for target in tree.written if tree.whole else re.findall(r">[|>&]?\s*([^\s;|&<>()`]+)", text):
        name = bare(target)
        if name and name not in {"/dev/null", "1", "2", "-"}:
            paths[at_home(name), "write"] = None
    located = {raw[0].rsplit("/", 1)[-1]: raw[0] for raw in tree.commands if raw and "/" in raw[0]}
    cut = too_long or found.cut or len(found.out) >= MAX_FOUND
    return NestedCommands(
        tuple(found.out), tuple(shown.out or found.out), tuple(paths), cut, tree.whole and bool(shown.out), located
    )


def unwrap(commands: Iterable[Words]) -> tuple[Words, ...]:
    """Return the commands, and the commands that they run."""
    finder = _Finder()
    for words in commands:
        finder.command(words)
    return tuple(finder.out)


def paths_in(words: Sequence[str]) -> Iterator[Named]:
    """Return the words of a command that look like paths. Its name does not count: running is not reading."""
    for word in words[1:]:
        for piece in (word, word.partition("=")[2]) if "=" in word else (word,):
            text = re.sub(r"^(?:@|-[A-Za-z](?=[/~]))", "", piece)  # curl's @file, and -I/usr/include
            if _is_path(text):
                yield at_home(text), "read"


def at_home(path: str) -> str:
    return re.sub(r"^\$(?:HOME|\{HOME\})", "~", path)


def bare(word: str) -> str:
    """Return a word without quotes, with the escapes in `$'…'` decoded."""
    word = re.sub(r"\$'((?:[^'\\]|\\.)*)'", lambda match: _escapes(match.group(1)), word)
    word = re.sub(r"""'([^']*)'|"((?:\\.|[^"\\])*)\"""", lambda match: match.group(1) or match.group(2) or "", word)
    return re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL)


_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|([0-7]{1,3})|(.))", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "E": "\x1b"}


def _escapes(text: str) -> str:
    def read(match: re.Match[str]) -> str:
        small, wide, octal, letter = match.groups()
        if letter is not None:
            return _LETTERS.get(letter, letter)
        return chr(int(octal, 8) & 0xFF) if octal else chr(int(small or wide, 16))

    return _ESCAPE.sub(read, text)


def _is_path(text: str) -> bool:
    if not text or text.startswith("-") or "://" in text or len(text) > 200 or text == "/dev/null":
        return False
    if re.search(r"[{}()^|\\\n<>;]", text) or re.fullmatch(r"[sy]?(?P<d>[/|,#]).*(?P=d).*(?P=d)[gpiI0-9]*", text):
        return text.startswith(("/", "~/")) and " " not in text and "{" not in text and text.count("/") > 2
    if text.startswith(("/", "~", ".", "$HOME", "${HOME}")) or "/" in text:
        return True
    return re.search(r"\.[A-Za-z0-9]{1,8}$|^id_|_rsa$|file$|secret|credential", text) is not None


class _Finder:
    """Collects commands without duplicates."""

    def __init__(self, known: dict[Words, None] | None = None) -> None:
        self.out: dict[Words, None] = dict(known or {})
        self.cut = False

    def text(self, text: str, depth: int = 0) -> None:
        """Add every command that a text may run."""
        if depth > MAX_DEPTH or len(self.out) >= MAX_FOUND:
            self.cut = True
            return
        text = re.sub(r"\\\r?\n", "", text)
        for piece in _pieces(text):
            words = (bare(word) for word in _WORD.findall(re.sub(r"\d{0,3}[<>]+[|&]?\s*\S*", " ", piece)))
            self.command(tuple(word for word in words if word), depth)
        # Substitutions also run inside double quotes and inside words.
        for inner in re.findall(r"\$\(((?:[^()]|\([^()]*\))*)\)|`([^`]*)`|[<>]\(([^()]*)\)", text):
            for body in inner:
                if body and len(body) < len(text):
                    self.text(body, depth + 1)

    def command(self, words: Words, depth: int = 0) -> None:
        """Add a command, and the commands that it wraps."""
        while words and _ASSIGNMENT.match(words[0]):
            words = words[1:]
        self.cut |= depth > MAX_DEPTH or len(words) > MAX_WORDS
        if not words or depth > MAX_DEPTH or len(self.out) >= MAX_FOUND or not _NAME.search(words[0]):
            return
        words = words[:MAX_WORDS]
        name = words[0].rsplit("/", 1)[-1].removesuffix(".exe")
        words = (name, *words[1:])
        if words in self.out:
            return
        self.out[words] = None
        for inner in _inside(name, words[1:]):
            self.command(inner, depth + 1)
        for text in _texts(name, words[1:]):
            self.text(text, depth + 1)


def _inside(name: str, rest: Words) -> Iterator[Words]:
    """Return the commands that are words in the arguments of another command."""
    if name in _WRAPPERS and not (name == "command" and rest[:1] in (("-v",), ("-V",))):
        yield _after_options(name, rest)
    if name in {"find", "fd", "fdfind"}:
        for at, word in enumerate(rest):
            if word in {"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"}:
                inner = rest[at + 1 :]
                ends = [end for end, part in enumerate(inner) if part in {";", "+"}]
                yield inner[: ends[0]] if ends else inner
    if name == "git":
        # `git -C x -c a=b push` is a push.
        at = 0
        while at < len(rest) and rest[at].startswith("-"):
            at += 2 if rest[at] in _GIT_VALUES else 1
        if at:
            yield ("git", *rest[at:])


def _texts(name: str, rest: Words) -> Iterator[str]:
    """Return the command lines that are text in the arguments of a command."""
    if name in _SHELLS or name in {"su", "runuser", "script", "ksh"}:
        for at, word in enumerate(rest[:-1]):
            if re.fullmatch(r"-[a-zA-Z]*c", word) or word == "--command":
                yield rest[at + 1]
    if name in {"eval", "trap"}:
        yield " ".join(rest)
    if name in {"ssh", "watch", "parallel", "xargs"} and any(re.search(r"[\s;|&]", word) for word in rest):
        yield " ".join(_after_options(name, rest))
    if name == "env":
        for at, word in enumerate(rest):
            if word in {"-S", "--split-string"}:
                yield " ".join(rest[at + 1 :])
            elif word.startswith(("-S", "--split-string=")):
                yield " ".join((word.removeprefix("--split-string=").removeprefix("-S"), *rest[at + 1 :]))
    if name == "git":
        for at, word in enumerate(rest[:-1]):
            if word == "-c" and re.match(r"alias\.[^=]*=!", rest[at + 1]):
                yield rest[at + 1].partition("=!")[2]


def _after_options(name: str, rest: Words) -> Words:
    valued = _WRAPPERS[name].split()
    own = _OWN_OPERANDS.get(name, 0)
    at = 0
    while at < len(rest):
        word = rest[at]
        if word == "--":
            at += 1
            if not own:
                break
        elif word.startswith("-") and len(word) > 1:
            at += 2 if word in valued else 1
        elif _ASSIGNMENT.match(word):
            at += 1
        elif own:
            own -= 1
            at += 1
        else:
            break
    return rest[at:]


_BREAK = re.compile(r"[;&|\n(){}`]|\$\(|<\(|>\(")
_WORD = re.compile(r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^\s'"\\]|\\|['"])+""", re.DOTALL)


def _pieces(text: str) -> Iterator[str]:
    """Split the text wherever a command could begin outside quotes."""
    start = at = 0
    quote = ""
    while at < len(text):
        char = text[at]
        if quote:
            if char == "\\" and quote == '"':
                at += 1
            elif char == quote:
                quote = ""
        elif char == "\\":
            at += 1
        elif char in "'\"":
            quote = char
        elif found := _BREAK.match(text, at):
            yield text[start:at]
            start = found.end()
            at = found.end() - 1
        at += 1
    yield text[start:]
    if quote:  # an unclosed quote must not hide commands
        yield from re.split(r"[;&|\n(){}`]", text)
