"""Confines this process by Landlock and seccomp, then becomes the command: `landlock.py FD command…`.

Runs as a script of its own between the server and the command, so that nothing is done between fork and exec of a
process with threads. It imports the standard library only. FD is a file that holds a `Plan` as JSON. When anything of
the confinement fails, the command does not run.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    import ctypes

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION = 1
_PATH_BENEATH = 1
_CAPABILITIES_VERSION = 0x20080522
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
"""the rights each version of Landlock added: files and folders, moving between folders, truncating, device ioctls"""
_NETWORK = 0b11  # binding and connecting TCP, since version 4
_SCOPES = 0b11  # abstract sockets and signals, since version 6

NEEDED_EXIT = 126
"""what the script answers when it could not confine itself"""


class Plan(TypedDict):
    """What stays possible."""

    read: list[str]
    """files, and folders with everything below them, that may be read and executed"""
    list: list[str]
    """folders that may be listed, with everything below them"""
    write: list[str]
    """devices that may be written"""
    seccomp: str
    """the filter, in hexadecimal"""


def version() -> int:
    """The version of Landlock in the running kernel; 0 when there is none."""
    if sys.platform != "linux":
        return 0
    return max(0, _libc().syscall(_CREATE_RULESET, None, 0, _VERSION))


def confine(plan: Plan) -> None:
    """Take away every right that the plan does not name, from this process and all it will start. Raises OSError."""
    libc = _libc()
    abi = version()
    if abi < 1:
        raise OSError("the kernel has no Landlock")
    rights = 0
    for since, added in _RIGHTS.items():
        rights |= added if abi >= since else 0
    attributes = struct.pack("<QQQ", rights, _NETWORK if abi >= 4 else 0, _SCOPES if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = _check(libc.syscall(_CREATE_RULESET, attributes, size, 0))
    for paths, access in (
        (plan["read"], _READ_FILE | _READ_DIR | _EXECUTE),
        (plan["list"], _READ_DIR),
        (plan["write"], _READ_FILE | _WRITE_FILE | (_RIGHTS[5] if abi >= 5 else 0)),
    ):
        for path in paths:
            _allow(libc, ruleset, path, access)
    _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _check(libc.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)
    # Root would keep its capabilities; without new privileges no program gets them back.
    _check(libc.capset(struct.pack("@Ii", _CAPABILITIES_VERSION, 0), bytes(24)))
    import ctypes

    code = bytes.fromhex(plan["seccomp"])
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    _check(libc.prctl(_PR_SET_SECCOMP, _FILTER, header, 0, 0))


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, access: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # gone since the plan was made: nothing to allow
        return
    try:
        if not os.path.isdir(path):  # noqa: PTH112 - pathlib would be most of what this script costs
            access &= ~_READ_DIR
        _check(libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", access, handle), 0))
    finally:
        os.close(handle)


def _libc() -> ctypes.CDLL:
    import ctypes  # here, not above: the server imports this module and seldom needs it

    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> int:
    if result < 0:
        import ctypes

        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def main(handle: int, command: list[str]) -> int:
    try:
        with os.fdopen(handle, encoding="utf-8") as file:
            confine(json.load(file))
        os.execv(command[0], command)  # noqa: S606 - this is what it is for
    except (OSError, ValueError, KeyError) as error:
        sys.stderr.write(f"pilotfish: the read-only sandbox could not be set up: {error}\n")
    return NEEDED_EXIT


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), sys.argv[2:]))
