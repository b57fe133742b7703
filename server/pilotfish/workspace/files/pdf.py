"""Reads the text of a PDF file with pypdf, in a child process with limits.

Anybody may have written the file, and a small one can stand for any amount of work. So the child is bound in memory and
processor time, is stopped after `MAX_SECONDS`, and gives at most `MAX_TEXT` bytes. The child is this module, run as a
script: the file on its input, one line of JSON for the number of pages and one for the text of each page on its output.
pypdf is the extra `pilotfish[pdf]`, imported in the child only.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import io
import json
import os
import sys
from dataclasses import dataclass
from typing import TypedDict

from pilotfish.errors import ToolError

MAX_FILE = 50_000_000
MAX_SECONDS = 20.0
MAX_MEMORY = 1 << 30
MAX_TEXT = 4_000_000
CHUNK = 1 << 16
SIGNATURE = b"%PDF-"
SIGNATURE_WITHIN = 1024  # bytes; some programs write something in front of it


@dataclass(frozen=True, slots=True)
class PdfText:
    """The text of the first pages of a file with `total` pages. `stopped` says why these are not all."""

    pages: tuple[str, ...]
    total: int
    stopped: str = ""


class _Head(TypedDict, total=False):
    """The first line of the child."""

    pages: int
    error: str


def is_pdf(data: bytes) -> bool:
    return SIGNATURE in data[:SIGNATURE_WITHIN]


def pypdf_missing() -> bool:
    return importlib.util.find_spec("pypdf") is None


async def pdf_text(data: bytes) -> PdfText:
    """The text of a PDF file. Raises ToolError if it cannot be read."""
    if pypdf_missing():
        raise ToolError("it is a PDF, and pypdf, which reads its text, is not installed: pip install 'pilotfish[pdf]'")
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", __file__,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, env=kept,
    )  # fmt: skip
    output, stopped = bytearray(), ""
    feeding = asyncio.ensure_future(_feed(process.stdin, data))
    try:
        async with asyncio.timeout(MAX_SECONDS):
            while process.stdout is not None and (chunk := await process.stdout.read(CHUNK)):
                output += chunk
                if len(output) > MAX_TEXT:
                    stopped = f"the text is longer than {MAX_TEXT // 1_000_000} MB"
                    break
    except TimeoutError:
        stopped = f"reading took longer than {MAX_SECONDS:g} s"
    finally:
        feeding.cancel()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    return _parsed(bytes(output), stopped)


async def _feed(stdin: asyncio.StreamWriter | None, data: bytes) -> None:
    if stdin is not None:
        with contextlib.suppress(OSError):
            stdin.write(data)
            await stdin.drain()
            stdin.close()


def _parsed(output: bytes, stopped: str) -> PdfText:
    first, *lines = output.split(b"\n")[:-1] or [b"{}"]  # what follows the last line end is cut off
    head: _Head = json.loads(first)
    if "error" in head or "pages" not in head:
        raise ToolError(f"it cannot be read as a PDF: {head.get('error') or stopped or 'it needs too much memory'}")
    pages = tuple(str(json.loads(line)) for line in lines)
    if len(pages) < head["pages"] and not stopped:
        stopped = "reading the next page needs too much memory or time"
    return PdfText(pages, head["pages"], stopped)


def main() -> None:
    """The child."""
    _limit()
    from pypdf import PdfReader

    def say(value: object) -> None:
        sys.stdout.buffer.write(json.dumps(value).encode() + b"\n")
        sys.stdout.buffer.flush()

    try:
        pages = PdfReader(io.BytesIO(sys.stdin.buffer.read())).pages
        say({"pages": len(pages)})
    except Exception as error:  # whatever a broken file causes
        say({"error": f"{type(error).__name__}: {str(error)[:200]}"})
        return
    for page in pages:
        try:
            text = page.extract_text()
        except Exception as error:  # likewise; other pages may be whole
            text = f"[the text of this page cannot be read: {type(error).__name__}]"
        say(text.replace("\0", "").encode("utf-8", "replace").decode())


def _limit() -> None:
    if sys.platform == "win32":
        return  # it has no such limits; the time is bound by the caller
    import resource

    for name, most in (("AS", MAX_MEMORY), ("CPU", int(MAX_SECONDS)), ("FSIZE", 0), ("CORE", 0)):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))


if __name__ == "__main__":
    main()
