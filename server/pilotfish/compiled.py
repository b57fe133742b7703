"""The bytecode of what libraries compile from text while they load, kept from one start to the next.

A dataclass compiles its methods from text, every quoted annotation is compiled, and every pattern of `re`: six thousand
times before the first request, a third of its CPU. Python keeps the bytecode of a module beside it; this keeps that of
such text, in the same folder and under the same conditions. The key is the text itself, so what is kept cannot be out
of date; of another Python, damaged or not to be read, it is as if it were not there. Off with `PILOTFISH_LEAN=0`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import marshal
import os
import re
import sys
import threading
import typing
from collections.abc import Callable
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path
from types import CodeType
from typing import Any, Literal
from zlib import crc32

_sre: Any = importlib.import_module("_sre")

Mode = Literal["exec", "eval"]
Key = tuple[Mode, str] | tuple[Literal["re"], str | bytes, int]

LARGEST = 16 << 20  # bytes: then most of it is of libraries that have been replaced since, and it is begun anew
_HEAD = b"pilotfish 2 %d " % _sre.MAGIC + MAGIC_NUMBER
_CHECK = 4  # bytes of a checksum


class Kept:
    """Bytecode by the text it is of; made when it is not there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = _read(path)
        self._new: dict[Key, CodeType | _Pattern] = {}

    def code(self, text: str, mode: Mode) -> CodeType:
        """What `compile` makes of a text, or raises. A new object every time: Python tunes code to who runs it."""
        if (kept := self._known.get((mode, text))) is not None:
            return marshal.loads(kept)  # noqa: S302 -- it lies where Python's own bytecode lies
        made = self._new[mode, text] = compile(text, "<string>", mode, dont_inherit=True)
        return made

    def pattern(self, pattern: str | bytes, flags: int, make: Callable[[], tuple[re.Pattern[Any], _Pattern]]) -> Any:
        """The pattern of `re` that `make` makes, with what it is made of."""
        if (kept := self._known.get(("re", pattern, flags))) is not None:
            return _sre.compile(pattern, *marshal.loads(kept))  # noqa: S302 -- likewise
        made, made_of = make()
        if _is_loading():
            self._new["re", pattern, flags] = made_of
        return made

    def save(self) -> None:
        """Keep what was made now, too; not where Python keeps no bytecode."""
        if sys.dont_write_bytecode or not self._new:
            return
        made = {key: marshal.dumps(what) for key, what in self._new.copy().items()}
        body = marshal.dumps(self._known | made)
        if len(body) > LARGEST:
            body = marshal.dumps(made)
        own = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            own.write_bytes(_HEAD + crc32(body).to_bytes(_CHECK) + body)
            own.replace(self._path)
        except OSError:  # not ours to write, or no room
            with contextlib.suppress(OSError):
                own.unlink()


_Pattern = tuple[int, list[int], int, dict[str, int], tuple[str | None, ...]]
"""what `_sre` makes a pattern of, beside its text"""


def _is_loading() -> bool:
    """Whether a module is being loaded: patterns of anything else may be somebody's words, and are not kept."""
    frame = sys._getframe(1)  # noqa: SLF001  # `inspect` has no other way to a caller's frame
    while (frame := frame.f_back) is not None:
        if getattr(frame.f_globals.get("__spec__"), "_initializing", False):  # as importlib itself asks
            return True
    return False


def _read(path: Path) -> dict[Key, bytes]:
    with contextlib.suppress(OSError):
        found = path.read_bytes()
        check, body = found[len(_HEAD) : len(_HEAD) + _CHECK], memoryview(found)[len(_HEAD) + _CHECK :]
        if found.startswith(_HEAD) and crc32(body).to_bytes(_CHECK) == check:
            return marshal.loads(body)  # noqa: S302 -- checked above, and written where Python's own bytecode lies
    return {}


_in_use: list[Kept] = []
"""none or one"""


def install() -> None:
    """From now on, until `save`, what dataclasses, annotations and patterns compile is taken from what is kept."""
    if _in_use or os.environ.get("PILOTFISH_LEAN") == "0":
        return
    kept = Kept(Path(cache_from_source(__file__)).with_suffix(".generated"))
    _in_use.append(kept)

    def run(text: str, scope: dict[str, Any] | None = None, names: dict[str, Any] | None = None) -> None:
        exec(kept.code(text, "exec"), scope, names)  # noqa: S102 -- as dataclasses do

    def compiled(text: str, name: str, mode: str) -> CodeType:
        return kept.code(text, "eval") if (name, mode) == ("<string>", "eval") else compile(text, name, mode)

    # A name of the module comes before the builtin that it would find otherwise.
    dataclasses.__dict__["exec"] = run
    typing.__dict__["compile"] = compiled
    _patterns.install(kept)


class _Patterns:
    """`re`'s compiler, which has no such name to put ours before: it is private, so optional."""

    def __init__(self) -> None:
        self._compiler: Any = sys.modules.get("re._compiler")
        self._stock: Any = getattr(self._compiler, "compile", None)
        self._local = threading.local()

    def install(self, kept: Kept) -> None:
        if self._stock is None or getattr(self._compiler, "_sre", None) is not _sre:
            return

        def compiled(pattern: Any, flags: int = 0) -> Any:
            if type(pattern) not in (str, bytes) or flags & (re.DEBUG | re.LOCALE):
                return self._stock(pattern, flags)

            def make() -> tuple[re.Pattern[Any], _Pattern]:
                made = self._stock(pattern, flags)
                return made, self._local.made_of

            return kept.pattern(pattern, int(flags), make)

        self._compiler.compile = compiled
        self._compiler._sre = self  # noqa: SLF001  # the only place that sees what a pattern is made of

    def uninstall(self) -> None:
        if self._stock is not None:
            self._compiler.compile = self._stock
            self._compiler._sre = _sre  # noqa: SLF001  # what `install` put aside

    def __getattr__(self, name: str) -> Any:
        return getattr(_sre, name)

    def compile(self, pattern: Any, flags: int, code: list[int], *groups: Any) -> Any:
        self._local.made_of = (int(flags), [int(step) for step in code], *groups)
        return _sre.compile(pattern, flags, code, *groups)


_patterns = _Patterns()


def uninstall() -> Kept | None:
    """Leave compiling to Python again."""
    dataclasses.__dict__.pop("exec", None)
    typing.__dict__.pop("compile", None)
    _patterns.uninstall()
    return _in_use.pop() if _in_use else None


def save() -> None:
    """What was to be loaded is loaded: keep what was compiled on the way."""
    if kept := uninstall():
        kept.save()
