"""Asks a real bash what a text would run, without running it.

Every command name is a function that records its words, and PATH is empty. Files that redirections create are in a
folder of the test.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

BASH = shutil.which("bash")

_DRIVER = r"""
status=$1; shift
# Only the functions below exist. The builtins that they need are saved before they are hidden.
exec 9>>"$LOG"
note() { builtin printf '%s\0' "$@" $'\1' >&9; builtin return "$status"; }  # one write: pipes run at once
command_not_found_handle() { note "$@"; }
for name in "$@"; do
  builtin eval "function $name { note $name \"\$@\"; }" 2>/dev/null
done
while IFS= builtin read -r -d '' text; do
  builtin printf '\2\0' >&9
  ( builtin eval -- "$text" ) </dev/null >/dev/null 2>&1
  builtin wait
done 7<"$TEXTS" <&7
"""


def words_run(
    texts: Sequence[str], folder: Path, *, status: int = 0, names: Iterable[str] = ()
) -> list[list[tuple[str, ...]]]:
    """Return the words of the commands that bash ran for each text. Every command exits with `status`."""
    assert BASH is not None
    log, source = folder.parent / "log", folder.parent / "texts"
    log.write_bytes(b"")
    source.write_bytes(b"".join(text.encode("utf-8", "surrogatepass") + b"\0" for text in texts))
    functions = {*NAMES, *names} - {"builtin", "note"}  # the driver's own
    subprocess.run(
        [BASH, "--noprofile", "--norc", "-c", _DRIVER, "bash", str(status), *functions],
        cwd=folder,
        env={"PATH": "/nonexistent", "LOG": str(log), "TEXTS": str(source), "LC_ALL": "C.UTF-8"},
        check=True,
        timeout=60,
    )
    runs: list[list[tuple[str, ...]]] = []
    words: list[str] = []
    for raw in log.read_bytes().split(b"\0")[:-1]:
        if raw == b"\2":
            runs.append([])
        elif raw == b"\1":
            runs[-1].append(tuple(words))
            words = []
        else:
            words.append(raw.decode("utf-8", "surrogateescape"))
    assert len(runs) == len(texts)
    return runs


NAMES = (
    ":", "ls", "cat", "echo", "git", "cd", "test", "[", "true", "false", "printf", "rm", "id", "f", "touch", "eval",
    "exec", "source", ".", "set", "export", "alias", "trap", "read", "kill", "exit", "return", "shift", "unset",
    "wait", "break", "continue", "declare", "local", "readonly", "let", "pwd", "type", "command", "hash", "umask",
)  # fmt: skip
"""Builtins and common names. As functions they are recorded instead of run."""
