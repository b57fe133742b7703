"""The few destructive commands that are denied in every mode, whatever the rules say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

_SYSTEM = frozenset({
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/mnt", "/opt", "/proc", "/root", "/run", "/sbin",
    "/srv", "/sys", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/var", "/var/lib", "/Applications", "/Library",
    "/System", "/Users", "/Volumes", "/private", "C:", "C:/", "/c", "/mnt/c", "~", "$HOME",
})  # fmt: skip
_HOMES = re.compile(r"~[a-z_][a-z0-9_-]*|/home/[^/]+|/Users/[^/]+|(?:/\.\.)+")
_ENDS = frozenset({"shutdown", "reboot", "poweroff", "halt"})
_DISKS = re.compile(r"mkfs(?:\..+)?|mke2fs|mkswap|wipefs|blkdiscard|s?fdisk|s?gdisk|cfdisk|parted")
_LISTING = frozenset({"-l", "--list", "-h", "--help", "-V", "--version", "print"})
_SAFE_DEVICES = re.compile(
    r"/dev/(?:null|zero|full|random|urandom|tty|stdin|stdout|stderr|fd/[0-9]+|pts/[0-9]+|shm/.*|tcp/.*|udp/.*)"
)
_FORK_BOMB = re.compile(r"(?P<name>[\w:.+@-]{1,40})\(\)\{(?P=name)[|&](?P=name)&\}|\$0[|&]\$0&")
_DEVICE_TARGET = re.compile(r">[>|&]?\s*[\"']?(/+dev/[^\s;|&\"'()]+)")


def destroys(found: Sequence[Sequence[str]], written: Sequence[str], text: str | None = None) -> str | None:
    """Return why a command line is destructive. None if it is not.

    Pass `text` if the strict parser rejected the line: then its redirections are searched in the text.
    """
    if text is not None:
        if _FORK_BOMB.search(re.sub(r"\s+", "", text)):
            return "it is a fork bomb"
        written = (*written, *_DEVICE_TARGET.findall(text))
    for target in written:
        if _is_device(target):
            return f"it writes to the device {target}"
    for words in found:
        if words and (why := _one(words[0], list(words[1:]))):
            return why
    return None


def _one(name: str, rest: list[str]) -> str | None:
    flags = [word for word in rest if word.startswith("-")]
    operands = [word for word in rest if not word.startswith("-")]
    whole = next((word for word in operands if _is_system(word)), None)
    device = next((word for word in operands if _is_device(word)), None)
    if name in {"rm", "rmdir", "unlink", "srm"}:
        if "--no-preserve-root" in flags:
            return "it would delete the whole disk"
        return f"it would delete {whole}" if whole else None
    if _DISKS.fullmatch(name):
        return None if _LISTING & set(rest) or not operands else f"{name} would overwrite a disk"
    if name in {"tee", "truncate", "shred"} and device:
        return f"it writes to the device {device}"
    if name in {"cp", "mv", "install"} and operands and _is_device(operands[-1]):
        return f"it writes to the device {operands[-1]}"
    if name == "dd":
        targets = [word[3:] for word in rest if word.startswith("of=") and _is_device(word[3:])]
        return f"it writes to the device {targets[0]}" if targets else None
    if name == "mv" and whole and whole in operands[:-1]:
        return f"it would move {whole}"
    if name in {"chmod", "chown", "chgrp", "setfacl", "chattr"} and whole:
        recursive = any(flag == "--recursive" or (not flag.startswith("--") and "R" in flag) for flag in flags)
        return f"it would change the permissions of everything in {whole}" if recursive else None
    if name == "find":
        return _find(rest)
    ends = name in _ENDS or (name in {"init", "telinit"} and operands[:1] and operands[0] in {"0", "6"})
    if ends or (name == "systemctl" and _ENDS & set(operands)):
        return None if {"--help", "--version"} & set(rest) else "it would shut down or restart the machine"
    if name == "killall5" or (name == "kill" and "-1" in rest[1:]):
        return "it would kill every process"
    return None


def _find(rest: list[str]) -> str | None:
    at = next((at for at, word in enumerate(rest) if word.startswith(("-", "(", "!"))), len(rest))
    roots = [word for word in rest[:at] if _is_system(word)]
    runs = [inner.rsplit("/", 1)[-1] for word, inner in pairwise(rest) if word.startswith(("-exec", "-ok"))]
    deletes = "-delete" in rest or bool({"rm", "shred", "unlink"} & set(runs))
    narrowed = any(word in {"-name", "-iname", "-path", "-regex", "-newer", "-user", "-empty"} for word in rest)
    return f"it would delete {roots[0]}" if roots and deletes and not narrowed else None


def _is_device(path: str) -> bool:
    path = re.sub(r"/+", "/", path)
    return path.startswith("/dev/") and _SAFE_DEVICES.fullmatch(path) is None


def _is_system(operand: str) -> bool:
    """Whether an operand names a root, home or system directory, or everything in one."""
    path = operand.replace("\\", "/") if re.match(r"[A-Za-z]:", operand) else operand
    path = re.sub(r"/+", "/", re.sub(r"\$\{HOME[^}]*\}", "$HOME", path))
    path = re.sub(r"/(?:\./)+", "/", path)
    previous = None
    while previous != path:  # remove /x/../ and a trailing /* until nothing changes
        previous = path
        path = re.sub(r"^(/|(?:.*?/))(?!\.\./|\.\.$)[^/]+/\.\.(?=/|$)/?", r"\1", path)
        path = re.sub(r"(?:/\.|/\*+|/\.\*|/\.\[!\.\]\*|/\.\?\?\*|/\{[*.,?]*\})$|(?<=.)/$", "", path) or "/"
    return path in _SYSTEM or _HOMES.fullmatch(path) is not None
