"""Builds the seccomp filters of the sandboxes: which system calls a confined command may not make.

A filter is a list of calls that fail, not a list of calls that work: the mounts and the namespaces are the wall, and
the filter takes away what could weaken them (new namespaces, mounts, sockets, other processes' memory, io_uring, the
kernel's keys). `METADATA` is added where Landlock stands in for mounts: Landlock does not cover modes, owners, times
and extended attributes.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterable, Sequence

# name: (x86_64, aarch64); None where the architecture has no such call
_CALLS: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280), "chmod": (90, None),
    "chown": (92, None), "chroot": (161, 51), "clock_adjtime": (305, 266), "clock_settime": (227, 112),
    "clone": (56, 220), "clone3": (435, 435), "creat": (85, None),
    "delete_module": (176, 106), "fchmod": (91, 52), "fchmodat": (268, 53),
    "fchmodat2": (452, 452), "fchown": (93, 55), "fchownat": (260, 54), "finit_module": (313, 273),
    "fremovexattr": (199, 16), "fsconfig": (431, 431), "fsetxattr": (190, 7), "fsmount": (432, 432),
    "fsopen": (430, 430), "fspick": (433, 433), "futimesat": (261, None), "init_module": (175, 105),
    "ioprio_set": (251, 30), "migrate_pages": (256, 238), "move_pages": (279, 239),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "io_uring_setup": (425, 425), "ioctl": (16, 29),
    "ioperm": (173, None), "iopl": (172, None), "kexec_file_load": (320, 294), "kexec_load": (246, 104),
    "keyctl": (250, 219), "kill": (62, 129), "lchown": (94, None), "lremovexattr": (198, 15), "lsetxattr": (189, 6),
    "mknod": (133, None), "mknodat": (259, 33),
    "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429), "mq_open": (240, 180),
    "msgget": (68, 186), "name_to_handle_at": (303, 264), "open": (2, None), "open_by_handle_at": (304, 265),
    "open_tree": (428, 428), "openat": (257, 56), "openat2": (437, 437), "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424), "pivot_root": (155, 41), "prlimit64": (302, 261),
    "process_madvise": (440, 440), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "ptrace": (101, 117), "quotactl": (179, 60), "reboot": (169, 142), "removexattr": (197, 14),
    "removexattrat": (466, 466), "request_key": (249, 218), "semget": (64, 190), "setdomainname": (171, 162),
    "sched_setaffinity": (203, 122), "sched_setattr": (314, 274), "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119), "setpriority": (141, 140), "sethostname": (170, 161),
    "setns": (308, 268), "settimeofday": (164, 170), "setxattr": (188, 5),
    "setxattrat": (463, 463), "shmget": (29, 194), "socket": (41, 198), "swapoff": (168, 225), "swapon": (167, 224),
    "syslog": (103, 116), "tgkill": (234, 131), "tkill": (200, 130), "truncate": (76, 45), "umount2": (166, 39),
    "unshare": (272, 97), "userfaultfd": (323, 282), "utime": (132, None), "utimensat": (280, 88),
    "utimes": (235, None),
}  # fmt: skip
_ARCHITECTURES = {
    "x86_64": (0, 0xC000003E),
    "amd64": (0, 0xC000003E),
    "aarch64": (1, 0xC00000B7),
    "arm64": (1, 0xC00000B7),
}

DENIED = [
    "acct",
    "add_key",
    "adjtimex",
    "bpf",
    "chroot",
    "clock_adjtime",
    "clock_settime",
    "delete_module",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "init_module",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "ioperm",
    "iopl",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "mount",
    "mount_setattr",
    "move_mount",
    "name_to_handle_at",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pidfd_getfd",
    "pivot_root",
    "process_madvise",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "quotactl",
    "reboot",
    "request_key",
    "setdomainname",
    "sethostname",
    "setns",
    "settimeofday",
    "socket",
    "swapoff",
    "swapon",
    "syslog",
    "umount2",
    "unshare",
    "userfaultfd",
]
"""fail with EPERM in every confined command"""
METADATA = [
    "chmod",
    "chown",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "fchown",
    "fchownat",
    "fremovexattr",
    "fsetxattr",
    "futimesat",
    "lchown",
    "lremovexattr",
    "lsetxattr",
    "mq_open",
    "msgget",
    "removexattr",
    "removexattrat",
    "semget",
    "setxattr",
    "setxattrat",
    "shmget",
    "truncate",
    "utime",
    "utimensat",
    "utimes",
]
"""changes to files, and shared memory, that Landlock alone would let through"""
WRITING = [name for name in DENIED if name not in {"ptrace", "process_vm_readv", "process_vm_writev", "socket"}]
"""fail in commands that may write: debuggers work among their own, and sockets in a network of their own"""
SIGNALS = ("kill", "pidfd_send_signal", "tgkill", "tkill")
"""for kernels whose Landlock cannot keep signals inside"""

_OF_A_PROCESS = {
    "ioprio_set": 1, "migrate_pages": 0, "move_pages": 0, "prlimit64": 0, "sched_setaffinity": 0, "sched_setattr": 0,
    "sched_setparam": 0, "sched_setscheduler": 0, "setpriority": 1,
}  # fmt: skip
"""which argument is a process; 0 is the caller. Without a pid namespace every other one may be outside"""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW = 0x7FFF0000
_NEW_NAMESPACES = 0x7E020080  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWTIME
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_TERMINAL, _KIND_OF_REQUEST = 0x5400, 0xFF00
_FAMILIES = (1, 2, 10, 16)  # Unix, IPv4, IPv6, netlink: those that a network namespace confines, unlike vsock
_SET_ID_BITS = 0o6000  # set-user-id and set-group-id
_MODES = {
    "chmod": 1, "creat": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mknod": 1, "mknodat": 2, "open": 2,
    "openat": 3,
}  # fmt: skip
"""which argument is a mode: a program with the rights of its owner or group would outlive the sandbox"""
_O_ACCMODE, _O_TRUNC = 0o3, 0o1000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16


def supported() -> bool:
    """Whether a filter can be built for this processor."""
    return platform.machine().lower() in _ARCHITECTURES


def program(denied: Sequence[str] = DENIED, *, landlock_abi: int | None = None) -> bytes:
    """The filter, as the kernel takes it. `landlock_abi`: Landlock of this version stands in for mounts."""
    column, architecture = _ARCHITECTURES[platform.machine().lower()]
    denied = list(denied)
    if landlock_abi is not None:
        denied += METADATA
        denied += SIGNALS if landlock_abi < 6 else ()
    code = [
        _do(_LOAD, _ARCHITECTURE),
        _do(_EQUAL, architecture, yes=1),
        _fail(errno.EPERM),
        _do(_LOAD, _NUMBER),
    ]
    if column == 0:  # the x32 calls of an x86_64 kernel have numbers of their own
        code += [_do(_AT_LEAST, 0x40000000, no=1), _fail(errno.ENOSYS)]
    for number in _numbers(denied, column):
        code += [_do(_EQUAL, number, no=1), _fail(errno.EPERM)]
    # Their arguments are in memory, where a filter cannot look; callers fall back to the older call.
    for number in _numbers(("clone3", "openat2"), column):
        code += [_do(_EQUAL, number, no=1), _fail(errno.ENOSYS)]
    code += _when("clone", column, 0, [_do(_ANY_BIT, _NEW_NAMESPACES, no=1), _fail(errno.EPERM)])
    for name, argument in _MODES.items() if landlock_abi is None else ():
        code += _when(name, column, argument, [_do(_ANY_BIT, _SET_ID_BITS, no=1), _fail(errno.EPERM)])
    if "socket" not in denied:
        code += _when("socket", column, 0, [*_unless(_FAMILIES), _fail(errno.EPERM)])
    for request in _TERMINAL_INPUT:
        code += _when("ioctl", column, 1, [_do(_EQUAL, request, no=1), _fail(errno.EPERM)])
    if landlock_abi is not None:
        for name, argument in _OF_A_PROCESS.items():
            code += _when(name, column, argument, [_do(_EQUAL, 0, yes=1), _fail(errno.EPERM)])
        # Through a file that is open for reading, others change its flags (chattr) or make snapshots of it.
        kind = [_do(_AND, _KIND_OF_REQUEST), _do(_EQUAL, _TERMINAL, yes=1), _fail(errno.ENOTTY)]
        code += _when("ioctl", column, 1, kind)
        # Before its third version Landlock lets a file be emptied by opening it for reading.
        emptied = [_do(_AND, _O_ACCMODE | _O_TRUNC), _do(_EQUAL, _O_TRUNC, no=1), _fail(errno.EACCES)]
        code += _when("open", column, 1, emptied) + _when("openat", column, 2, emptied)
    return b"".join([*code, _do(_RETURN, _ALLOW)])


def _when(name: str, column: int, argument: int, check: list[bytes]) -> list[bytes]:
    """Look at the low half of one argument of a call; the call's number is loaded again behind it."""
    number = _CALLS[name][column]
    if number is None:
        return []
    inner = [_do(_LOAD, _ARGUMENTS + 8 * argument), *check, _do(_LOAD, _NUMBER)]
    return [_do(_EQUAL, number, no=len(inner)), *inner]


def _unless(values: Sequence[int]) -> list[bytes]:
    """Jump over the next statement if the loaded value is one of these."""
    return [_do(_EQUAL, value, yes=len(values) - index) for index, value in enumerate(values)]


def _numbers(names: Iterable[str], column: int) -> list[int]:
    return [number for name in names if (number := _CALLS[name][column]) is not None]


def _do(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("<HBBI", code, yes, no, value)


def _fail(number: int) -> bytes:
    return _do(_RETURN, 0x00050000 | number)
