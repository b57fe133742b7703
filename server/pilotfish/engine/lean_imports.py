"""The types of OpenAI's SDK, each loaded when it is first asked for.

The SDK loads some five hundred modules of types, most of them for endpoints that we never call: a fifth of the CPU
between the start and the first request. Here a package of its types that does nothing but name what is in its modules
loads a module when one of its names is asked for. A package that does anything more, and everything else, is loaded as
it always is. Off with `PILOTFISH_LEAN=0`; the setting `lean` takes it away before the SDK is loaded.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

TYPES = "openai.types"

_IMPORT = re.compile(r"^from \.(\w+) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)
_NOTHING = re.compile(r"^(?:#.*|from __future__ import annotations|)$", re.MULTILINE)


class LaterFinder:
    """Finds the packages whose modules are left for later."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != TYPES and not name.startswith(TYPES + "."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.submodule_search_locations is None or not isinstance(spec.loader, SourceFileLoader):
            return spec
        spec.loader = OnName(name, spec.loader.path)
        return spec


class OnName(SourceFileLoader):
    """A package that names what is in its modules: a module is loaded when one of its names is asked for."""

    def exec_module(self, module: ModuleType) -> None:
        where = exports(self.get_data(self.path).decode())
        if where is None:
            super().exec_module(module)
            return
        package = module.__name__

        def find(name: str) -> Any:
            try:
                if name not in where:
                    return importlib.import_module(f"{package}.{name}")  # a module, which importing it would have set
                inner, its_name = where[name]
                found = getattr(importlib.import_module(f"{package}.{inner}"), its_name)
            except ModuleNotFoundError as error:
                if error.name != f"{package}.{name}":
                    raise
                raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=module) from None
            setattr(module, name, found)
            return found

        # PEP 562: what a module has under these names answers for what it does not have.
        vars(module).update(__getattr__=find, __dir__=lambda: sorted({*vars(module), *where}))


def exports(source: str) -> dict[str, tuple[str, str]] | None:
    """Name → the module it is in, and its name there. None: the package does more than to name them."""
    if _NOTHING.sub("", _IMPORT.sub("", source)).strip():
        return None
    found: dict[str, tuple[str, str]] = {}
    for match in _IMPORT.finditer(source):
        module, several, one = match.groups()
        for item in (several or one).split(","):
            name, _, alias = item.strip().partition(" as ")
            if name == "*":
                return None
            if name:
                found[alias or name] = (module, name)
    return found


_FINDER = LaterFinder()


def install() -> None:
    """From now on. What is loaded already stays as it is."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


def uninstall() -> None:
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
