"""Checks of command arguments: each returns the paths that a command reads, or why it may do more than read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from pilotfish.policy.shell.arguments import Doubt, ParsedArguments, Read, spec


def files(args: ParsedArguments) -> Read | Doubt:
    """Every operand is a file that is read."""
    return Read((*args.paths, *args.files))


def names(args: ParsedArguments) -> Read | Doubt:
    """Every operand is a path that is read; without operands the current directory is read."""
    return Read((*args.paths, *(args.operands or (".",))))


def texts(args: ParsedArguments) -> Read | Doubt:
    return Read(args.paths)


def none(args: ParsedArguments) -> Read | Doubt:
    return Doubt("its arguments may change something") if args.operands else Read(args.paths)


def one_file(args: ParsedArguments) -> Read | Doubt:
    return Doubt("it would write to its last argument") if len(args.operands) > 1 else files(args)


def search(args: ParsedArguments) -> Read | Doubt:
    """For grep: the first operand is a pattern, the others are files. A pattern may be `-`."""
    operands = args.operands if args.has("-e", "-f", "--regexp", "--file") else args.operands[1:]
    files = tuple(word for word in operands if word != "-")
    if not args.has("-r", "-R", "--recursive", "--dereference-recursive"):
        return Read((*args.paths, *files))
    follows = args.has("-R", "--dereference-recursive")
    only = _plain_globs(args.values("--include"))
    return Read((*args.paths, *(files or (".",))), recursive=True, only=only, follows=follows)


_PLAIN_GLOB = re.compile(r"\*?[A-Za-z0-9_-]*\.?[A-Za-z0-9_-]+")


def _plain_globs(globs: tuple[str, ...]) -> tuple[str, ...]:
    """Return the globs if every program interprets them in the same way: no braces, sets, escapes or negation."""
    return globs if all(_PLAIN_GLOB.fullmatch(glob) for glob in globs) else ()


_SOURCES = frozenset({
    "py", "python", "js", "ts", "rust", "go", "java", "c", "cpp", "cs", "ruby", "php", "swift", "kotlin", "md",
    "markdown", "html", "css", "sql", "lua",
})  # fmt: skip
"""File types of ripgrep whose files do not hold secrets, judged by their names."""


def ripgrep(args: ParsedArguments) -> Read | Doubt:
    if args.has("--type-list", "--version", "-V"):
        return Read()
    operands = args.operands if args.has("-e", "-f", "--regexp", "--file", "--files") else args.operands[1:]
    files = tuple(word for word in operands if word != "-")
    paths = (*args.paths, *(files or (".",)))
    if args.has("--files"):
        return Read(paths)
    globs = args.values("-g", "--glob")
    only = _plain_globs(globs)
    types = args.values("-t", "--type")
    if types and all(name in _SOURCES for name in types):
        only = (*only, *(f"*.{name}" for name in types))
    unrestricted = sum(1 for flag, _ in args.flags if flag in {"-u", "--unrestricted"})
    hidden = args.has("--hidden", "-.", "--iglob") or unrestricted >= 2 or bool(globs)
    only = () if args.has("--iglob") else only
    return Read(paths, recursive=True, hidden=hidden, only=only)


def pattern_then_names(args: ParsedArguments) -> Read | Doubt:
    return Read((*args.paths, *(args.operands[1:] or (".",))))


def date(args: ParsedArguments) -> Read | Doubt:
    if all(word.startswith("+") for word in args.operands):
        return Read(args.paths)
    return Doubt("date would set the clock")


def diff(args: ParsedArguments) -> Read | Doubt:
    recursive = args.has("-r", "--recursive")
    return Read((*args.paths, *args.files), recursive=recursive, follows=not args.has("--no-dereference"))


def printf(rest: Sequence[str]) -> Read | Doubt:
    if rest and not rest[0].startswith("-") and not re.search(r"%[^a-zA-Z%]*[hlqjztL]*n", rest[0]):
        return Read()
    return Doubt("printf would set a variable")


def echo(rest: Sequence[str]) -> Read | Doubt:
    del rest
    return Read()


def command(rest: Sequence[str]) -> Read | Doubt:
    if len(rest) >= 2 and rest[0] in {"-v", "-V"} and not any(word.startswith("-") for word in rest[1:]):
        return Read()
    return Doubt("command runs another command")


_TESTS = frozenset({"-e", "-f", "-d", "-r", "-w", "-x", "-s", "-L", "-h"})


def test(rest: Sequence[str]) -> Read | Doubt:
    if rest and rest[0] == "!":
        rest = rest[1:]
    match rest:
        case [op, path] if op in _TESTS:
            return Read((path,))
        case [op, _] if op in {"-z", "-n"}:
            return Read()
        case [_, op, _] if op in {"=", "!="}:
            return Read()
        case _:
            return Doubt("this form of test cannot be checked")


def bracket(rest: Sequence[str]) -> Read | Doubt:
    return test(rest[:-1]) if rest and rest[-1] == "]" else Doubt("the closing ] is missing")


def ps(rest: Sequence[str]) -> Read | Doubt:
    known = {"aux", "ax", "axu", "-e", "-f", "-ef", "-A", "-aux", "-eF", "auxf", "axf"}
    return Read() if all(word in known for word in rest) else Doubt("these options of ps cannot be checked")


def sleep(rest: Sequence[str]) -> Read | Doubt:
    if len(rest) == 1 and re.fullmatch(r"[0-9]{1,2}(\.[0-9]+)?s?", rest[0]) and float(rest[0].rstrip("s")) <= 60:
        return Read()
    return Doubt("it would wait for a long time")


def cd(rest: Sequence[str]) -> Read | Doubt:
    if len(rest) == 1 and not rest[0].startswith("-") and rest[0] and ".." not in rest[0].split("/"):
        return Read((rest[0],))
    return Doubt("the target directory of cd cannot be determined")


_FIND_TESTS = spec(
    "-name$ -iname$ -path$ -ipath$ -wholename$ -iwholename$ -regex$ -iregex$ -regextype$ -type$ -xtype$ "
    "-lname$ -ilname$ -maxdepth# -mindepth# -size$ -mtime# -mmin# -atime# -amin# -ctime# -cmin# -newer@ "
    "-anewer@ -cnewer@ -newermt$ -newerct$ -perm$ -user$ -group$ -uid# -gid# -links# -inum# -samefile@ "
    "-empty -executable -readable -writable -nouser -nogroup -true -false -print -print0 -ls -printf$ "
    "-prune -quit -depth -xdev -mount -daystart -noleaf -ignore_readdir_race -not -a -and -o -or",
    texts,
).flags


def find(rest: Sequence[str]) -> Read | Doubt:
    paths: list[str] = []
    at = 0
    while at < len(rest) and not rest[at].startswith(("-", "(", ")", "!", ",")):
        paths.append(rest[at])
        at += 1
    roots = paths or ["."]
    extra: list[str] = []
    while at < len(rest):
        word = rest[at]
        at += 1
        if word in {"(", ")", "!", ","}:
            continue
        kind = _FIND_TESTS.get(word)
        if kind is None:
            return Doubt(f"find {word} may write files or run other programs")
        if kind:
            if at >= len(rest):
                return Doubt(f"find {word} needs a value")
            value = rest[at]
            at += 1
            if kind == "#" and not re.fullmatch(r"[+-]?[0-9]+", value):
                return Doubt(f"the value of find {word} cannot be checked")
            if kind == "@":
                extra.append(value)
    return Read((*roots, *extra))


_AWK = re.compile(
    r"\s*(?:NR\s*(?:==|>|<|>=|<=)\s*[0-9]+\s*)?\{\s*print(?:\s+\$(?:NF|[0-9]+)(?:\s*,?\s*\$(?:NF|[0-9]+))*)?\s*;?\s*\}\s*"
)


def awk(args: ParsedArguments) -> Read | Doubt:
    if args.operands and _AWK.fullmatch(args.operands[0]):
        return Read(tuple(word for word in args.operands[1:] if word != "-"))
    return Doubt("an awk program can write files and run commands")


_JQ = re.compile(r"\b(?:env|import|include|modulemeta|get_search_list|input_filename)\b|\$ENV|\$__")


def jq(args: ParsedArguments) -> Read | Doubt:
    if not args.operands or _JQ.search(args.operands[0]):
        return Doubt("this jq program may read other files or the environment")
    return Read(args.operands[1:])


def sed(args: ParsedArguments) -> Read | Doubt:
    scripts, files = args.values("-e", "--expression"), args.files
    if not scripts:
        scripts, files = files[:1], files[1:]
    if scripts and all(sed_script_prints(script) for script in scripts):
        return Read(files)
    return Doubt("this sed script may write files or run commands")


def sed_script_prints(script: str) -> bool:
    """Whether a sed script only selects, replaces and prints: addresses with p, d, P, =, q, and s without e or w."""
    return len(script) <= 500 and _sed_script().fullmatch(script) is not None


@cache
def _sed_script() -> re.Pattern[str]:
    among = r"\[\^?\]?(?:\[:[a-z]+:\]|[^\[\]\\\n{d}])*\]"
    pattern = rf"(?:[^{{d}}\\\n\[\]]|\\[^\n]|{among})*"
    text = r"(?:[^{d}\\\n]|\\[^\n])*"
    address = rf"(?:[0-9]+(?:~[0-9]+)?|\$|/{pattern.replace('{d}', '/')}/I?)"
    replace = "|".join(
        f"s{d}{pattern.replace('{d}', d)}{d}{text.replace('{d}', d)}{d}[gpiI0-9]*" for d in ("/", r"\|", ",", "#", "@")
    )
    command = rf"(?:{address}(?:,(?:{address}|[+~][0-9]+))? *)?!? *(?:[pdP=]|q[0-9]*|{replace})"
    return re.compile(rf"[ ;]*{command} *(?:;[ ;]*{command} *)*(?:;[ ;]*)?")
