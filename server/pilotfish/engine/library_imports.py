"""Imports the libraries of models and MCP in threads, one at a time.

Their modules import each other in circles. If two threads import them at the same time, each may wait for a module that
the other has begun; Python then gives one of them an unfinished module, and its import fails.
"""

from __future__ import annotations

import importlib
import threading

importing = threading.RLock()
"""held by a thread while it imports"""


def import_library(module: str) -> None:
    with importing:
        importlib.import_module(module)
