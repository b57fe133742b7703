"""Commands that may run in the read-only sandbox without a question.

In the read-only sandbox a command does not have to be proved harmless. It runs there without a question if all its
programs are usually run to read something, so that the sandbox is unlikely to make them fail. Commands that are known
to write (`sed -i`, `sort -o`, `> file`) are excluded, because they would fail.

These names prove nothing. Only `workspace/process/readonly_sandbox.py` makes the run safe.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pilotfish.policy.shell.arguments import Doubt, Read
from pilotfish.policy.shell.git_commands import GIT, folder_of
from pilotfish.policy.shell.read_only_commands import EXACT, SPECIAL, TABLE, read_only

WRAPPERS = frozenset({
    "bash", "sh", "dash", "env", "timeout", "gtimeout", "nice", "ionice", "stdbuf", "time", "command", "builtin",
    "xargs", "!", "{", "then", "do", "else", "if", "while", "until", "elif", "for", "case", "in", "fi", "done", "esac",
    "[[", "unbuffer",
})  # fmt: skip
"""They run another command, which is checked separately."""
MORE = frozenset({
    ":", "set", "export", "local", "declare", "read", "shift", "unset", "break", "continue", "exit", "return", "wait",
    "shopt", "let", "gawk", "mawk", "yq", "bat", "less", "more", "zcat", "zgrep", "bzcat", "xzcat", "unzip", "ag",
    "ack", "tokei", "cloc", "scc", "objdump", "nm", "readelf", "ldd", "size", "diffstat", "look", "join", "tsort",
    "factor", "numfmt", "fmt", "pr", "split", "shuf", "expr", "bc", "dc", "cal", "printenv", "lsof", "whereis", "eza",
    "exa", "fdfind", "sum", "colordiff", "delta", "icdiff", "xmllint", "plutil", "sqlite3", "tput", "getent", "mdfind",
    "egrep", "fgrep", "strings", "xxd",
})  # fmt: skip
"""They read or only compute, and are not in the strict table."""
_STRICT = frozenset({"date", "hostname", "sleep", "uniq", "base64"})
"""Accepted only with the arguments of the strict table: with others they write, change settings or wait."""
_STRICT_GIT = frozenset({"branch", "tag", "remote", "stash", "worktree", "config", "reflog"})
_GIT_FLAGS = re.compile(r"--outp.*|--ext-diff|--textconv|--filters|-O.*|--open.*|--show-signature")
_WRITES: dict[str, str] = {
    "sed": r"-[a-zA-Z]*i.*|--in-pl.*",
    "sort": r"-[a-zA-Z]*o.*|--outp.*|--comp.*",
    "find": r"-delete|-fprint0?|-fprintf|-fls|-ok|-okdir",
    "tree": r"-[a-zA-Z]*o.*",
    "tail": r"-[a-zA-Z]*[fF].*|--fol.*|--retry",
    "rg": r"--pre.*|--hostname.*",
    "yq": r"-[a-zA-Z]*i.*|--inplace",
    "awk": r"-i",
    "gawk": r"-i",
    "split": r".*",
    "xxd": r"-r.*",
    "unzip": r"(?!-[lpvZ]).*",
    "sqlite3": r"(?!-readonly).*",
}
"""Arguments with which these programs write, wait or run another program."""
_FIRST_ONLY = frozenset({"unzip", "sqlite3"})
"""Their first argument must be one with which they only read."""
_PROGRAM_VARIABLES = re.compile(
    r"(?:^|[\s;&|(])(?:PATH|IFS|ENV|PAGER|EDITOR|SHELL|HOME|PS4|PROMPT_COMMAND|LESSOPEN|RIPGREP_CONFIG_PATH"
    r"|(?:LD|DYLD|GIT|BASH|PYTHON|NODE|PERL|RUBY)_?[A-Z0-9_]*)\+?="
)
"""Assignments to variables that change which programs run."""


def worth_a_try(text: str, commands: Sequence[Sequence[str]]) -> bool:
    """Whether every command of a text is usually run to read. Text with invisible characters is never accepted."""
    if not all(char.isprintable() or char in "\n\t" for char in text) or _PROGRAM_VARIABLES.search(text):
        return False
    return bool(commands) and all(_looks(words) for words in commands)


def _looks(words: Sequence[str]) -> bool:
    name, rest = words[0], words[1:]
    if tuple(words) in EXACT:
        return True
    if name == "git":
        where = folder_of(rest)
        if isinstance(where, Doubt) or not where[1] or where[1][0] not in GIT:
            return False
        return not any(map(_GIT_FLAGS.fullmatch, rest)) and (where[1][0] not in _STRICT_GIT or _is_strict(words))
    if name in _STRICT:
        return _is_strict(words)
    if name in {"bash", "sh", "dash"}:
        # The commands in the text after -c are in the list too.
        return len(rest) >= 2 and re.fullmatch(r"-[a-z]*c", rest[0]) is not None
    if name not in WRAPPERS | MORE and name not in TABLE and name not in SPECIAL:
        return False
    pattern = _WRITES.get(name)
    looked = rest[:1] if name in _FIRST_ONLY else rest
    return pattern is None or not any(re.fullmatch(pattern, word) for word in looked)


def _is_strict(words: Sequence[str]) -> bool:
    return isinstance(read_only(words), Read)
