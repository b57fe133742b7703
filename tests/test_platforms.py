"""Every module can be imported on Windows and macOS, as far as that can be seen without them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SERVER = Path(__file__).parents[1] / "server"

POSIX_ONLY = ("fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")
"""modules of the standard library that Windows lacks"""
POSIX_NAMES = (
    ("os", "fork killpg setsid getuid geteuid getpgid getpgrp getsid register_at_fork WNOHANG O_NOFOLLOW O_DIRECTORY"),
    ("signal", "SIGKILL SIGHUP SIGQUIT SIGUSR1 SIGCHLD SIGALRM SIGTSTP SIGWINCH"),
    ("asyncio", "ThreadedChildWatcher"),
)
"""names of other modules that Windows lacks"""

SCRIPT = """
import importlib, sys, types

platform, names, absent, attributes = sys.argv[1], sys.argv[2].split(), sys.argv[3].split(), sys.argv[4].split()
libraries = sys.argv[5].split()
for name in libraries:  # their own code for another system is not ours to test, and needs that system
    importlib.import_module(name)
for name in absent:
    sys.modules[name] = None
if platform == "win32":
    sys.modules["msvcrt"] = types.ModuleType("msvcrt")
for name in attributes:
    module, _, attribute = name.partition(".")
    if hasattr(importlib.import_module(module), attribute):
        delattr(sys.modules[module], attribute)
sys.platform = platform
for name in names:
    try:
        importlib.import_module(name)
    except BaseException as error:
        print(f"{name}: {error!r}")
"""
LIBRARIES = (
    "acp", "anyio", "asyncio", "bs4", "cattrs", "ctypes", "fastmcp.client", "fastmcp.client.transports",
    "genai_prices", "httpcore2", "httpx2", "logging.handlers", "lsprotocol.types", "markdown_it", "markdownify",
    "multiprocessing", "openai", "pathspec", "platformdirs", "prompt_toolkit", "prompt_toolkit.shortcuts", "psycopg",
    "pydantic_ai", "pydantic_ai.models.openai", "pygls.lsp.server", "rich.console", "rich.live", "rich.markdown",
    "sqlite3", "subprocess", "tempfile", "tomlkit", "tree_sitter_bash", "typer", "typer.testing", "uuid",
)  # fmt: skip


def modules() -> list[str]:
    """Every module of the server but those that run when they are imported."""
    names = [".".join(file.relative_to(SERVER).with_suffix("").parts) for file in sorted(SERVER.rglob("*.py"))]
    return [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]


def not_importable(
    platform: str, names: list[str], absent: tuple[str, ...] = (), attributes: tuple[str, ...] = ()
) -> list[str]:
    """What cannot be imported, each with its error, in a process that believes to be on `platform`."""
    given = (platform, " ".join(names), " ".join(absent), " ".join(attributes), " ".join(LIBRARIES))
    done = subprocess.run([sys.executable, "-c", SCRIPT, *given], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_every_module_is_imported_on_macos() -> None:
    assert not_importable("darwin", modules()) == []


def test_every_module_is_imported_on_windows() -> None:
    attributes = tuple(f"{module}.{name}" for module, names in POSIX_NAMES for name in names.split())
    assert not_importable("win32", modules(), POSIX_ONLY, attributes) == []


def test_a_module_that_needs_posix_is_found() -> None:
    (found,) = not_importable("linux", ["pilotfish.store.locks", "pilotfish.errors"], POSIX_ONLY)
    assert found.startswith("pilotfish.store.locks: ModuleNotFoundError")


@pytest.mark.parametrize("module", POSIX_ONLY)
def test_what_is_blocked_exists_here(module: str) -> None:
    __import__(module)
