"""Commands that are worth a try where they can change nothing.

With a read-only sandbox under it, a command need not be proved harmless to run without a question. It is tried when
every program in it is one that people run to look at things: then the sandbox does not get in its way. What is known
to write (`sed -i`, `sort -o`, `> file`) is not tried, because it would only fail.

The names here prove nothing. What makes a trial safe is `workspace/process/readonly_sandbox.py` alone.
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
"""run another command, which is looked at by itself"""
MORE = frozenset({
    ":", "set", "export", "local", "declare", "read", "shift", "unset", "break", "continue", "exit", "return", "wait",
    "shopt", "let", "gawk", "mawk", "yq", "bat", "less", "more", "zcat", "zgrep", "bzcat", "xzcat", "unzip", "ag",
    "ack", "tokei", "cloc", "scc", "objdump", "nm", "readelf", "ldd", "size", "diffstat", "look", "join", "tsort",
    "factor", "numfmt", "fmt", "pr", "split", "shuf", "expr", "bc", "dc", "cal", "printenv", "lsof", "whereis", "eza",
    "exa", "fdfind", "sum", "colordiff", "delta", "icdiff", "xmllint", "plutil", "sqlite3", "tput", "getent", "mdfind",
    "egrep", "fgrep", "strings", "xxd",
})  # fmt: skip
"""read or only compute; not in the strict table"""
_STRICT = frozenset({"date", "hostname", "sleep", "uniq", "base64"})
"""tried only as the strict table knows them: other arguments write, set or wait"""
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
"""arguments that make a reader write, wait or run another program"""
_FIRST_ONLY = frozenset({"unzip", "sqlite3"})
"""their first argument must say that they only read"""
_TELLING_VARIABLES = re.compile(
    r"(?:^|[\s;&|(])(?:PATH|IFS|ENV|PAGER|EDITOR|SHELL|HOME|PS4|PROMPT_COMMAND|LESSOPEN|RIPGREP_CONFIG_PATH"
    r"|(?:LD|DYLD|GIT|BASH|PYTHON|NODE|PERL|RUBY)_?[A-Z0-9_]*)\+?="
)
"""variables that name programs"""


def worth_a_try(text: str, commands: Sequence[Sequence[str]]) -> bool:
    """Whether each of these commands, all that a text runs, is one that looks at things. A person must be able to see
    what is tried."""
    if not all(char.isprintable() or char in "\n\t" for char in text) or _TELLING_VARIABLES.search(text):
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
        # What the text after -c runs is in the list by itself.
        return len(rest) >= 2 and re.fullmatch(r"-[a-z]*c", rest[0]) is not None
    if name not in WRAPPERS | MORE and name not in TABLE and name not in SPECIAL:
        return False
    pattern = _WRITES.get(name)
    looked = rest[:1] if name in _FIRST_ONLY else rest
    return pattern is None or not any(re.fullmatch(pattern, word) for word in looked)


def _is_strict(words: Sequence[str]) -> bool:
    return isinstance(read_only(words), Read)
