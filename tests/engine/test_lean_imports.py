"""The SDK's types loaded one by one are the SDK's types, and few of them are loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from pilotfish.engine.lean_imports import exports

EVERY_NAME = """
import importlib, json, pkgutil, types
import pilotfish.engine
import openai.types

found = {}
inner = pkgutil.walk_packages(openai.types.__path__, "openai.types.")
for package in ["openai.types", *(each.name for each in inner if each.ispkg)]:
    module = importlib.import_module(package)
    names = [name for name in dir(module) if not name.startswith("_") and name != "annotations"]
    values = {name: getattr(module, name) for name in names}
    found[package] = {
        name: f"{getattr(value, '__module__', '')} {getattr(value, '__qualname__', repr(value))}"
        for name, value in values.items() if not isinstance(value, types.ModuleType)
    }
print(json.dumps(found))
"""

A_MODEL = """
import asyncio, json, sys
from pilotfish.engine import models
from pilotfish.settings import Settings

async def main():
    settings = Settings(model=MODEL, base_url="http://127.0.0.1:9/v1")
    model = models.resolve(MODEL, settings, {"openai": "key"})
    print(json.dumps({
        "modules": sum(name.startswith("openai.types.") for name in sys.modules),
        "responses": "openai.resources.responses" in sys.modules,
        "create": type(model.client.responses if "responses" in MODEL else model.client.chat.completions).__name__,
    }))

asyncio.run(main())
"""


def ran(program: str, *, lean: str = "1") -> Any:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={**os.environ, "PILOTFISH_LEAN": lean},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(done.stdout)


def built(model: str, *, lean: bool = True) -> Any:
    return ran(A_MODEL.replace("MODEL", repr(model)), lean="1" if lean else "0")


def test_every_name_of_every_package_is_what_the_sdk_says_it_is() -> None:
    stock, ours = ran(EVERY_NAME, lean="0"), ran(EVERY_NAME)
    assert len(stock) > 20
    assert ours == stock


def test_a_chat_loads_neither_the_types_nor_the_endpoint_of_others() -> None:
    chat, stock = built("openai-chat:some"), built("openai-chat:some", lean=False)
    assert chat["modules"] < 0.7 * stock["modules"]
    assert (chat["responses"], chat["create"]) == (False, "LeanCompletions")
    assert stock["create"] == "AsyncCompletions"


@pytest.mark.parametrize(("lean", "create"), [(True, "LeanResponses"), (False, "AsyncResponses")])
def test_who_talks_to_responses_gets_its_lean_path_unless_it_is_off(lean: bool, create: str) -> None:
    assert built("openai-responses:some", lean=lean)["create"] == create


@pytest.mark.parametrize(
    "source",
    ["from .one import One\nOne.more = 1\n", "import os\n", "from .one import *\n", '__all__ = ["One"]\n'],
)
def test_a_package_that_does_more_than_to_name_things_is_loaded_as_always(source: str) -> None:
    assert exports(source) is None


def test_names_are_found_however_they_are_written() -> None:
    source = """# made by a machine
from __future__ import annotations

from .one import One as One
from .two import (
    Two as Two,
    Deux as Three,
)
"""
    assert exports(source) == {"One": ("one", "One"), "Two": ("two", "Two"), "Three": ("two", "Deux")}
