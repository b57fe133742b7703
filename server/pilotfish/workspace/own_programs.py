"""Finds the programs that the server itself runs, outside every sandbox: git, bubblewrap, a shell, ripgrep.

Promises: a workspace that this process has opened provides none of them, whatever `PATH` says. An activated virtual
environment, or an entry such as `./node_modules/.bin`, puts the workspace in front of the system; then a file that a
repository brings, or that a confined command makes, would run with the rights of the user.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

_workspaces: set[Path] = set()


def distrust(roots: Iterable[Path]) -> None:
    """From now on no program is taken from these folders. For every folder that a workspace is opened in."""
    _workspaces.update(Path(os.path.realpath(root)) for root in roots)


def search_path(environ: Mapping[str, str] | None = None) -> str:
    """`PATH` without entries that are relative or in a workspace."""
    named = (os.environ if environ is None else environ).get("PATH") or os.defpath
    return os.pathsep.join(_outside(named)) or os.defpath


def find_program(name: str, environ: Mapping[str, str] | None = None) -> str | None:
    """The program of this name that is installed on this machine, outside every workspace."""
    found = shutil.which(name, path=search_path(environ))
    # Windows looks in the working directory first, whatever the path says.
    return found if found is None or _is_outside(Path(found).parent) else None


def _outside(named: str) -> Iterator[str]:
    return (entry for entry in named.split(os.pathsep) if _is_outside(Path(entry)))


def _is_outside(folder: Path) -> bool:
    if not folder.is_absolute():
        return False
    real = Path(os.path.realpath(folder))
    return not any(real.is_relative_to(root) for root in _workspaces)
