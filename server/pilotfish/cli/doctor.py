"""`pilotfish doctor`: checks the installation and prints a remedy for each problem."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.metadata import version

from rich.console import Console
from rich.text import Text

from pilotfish import __version__
from pilotfish.config.settings import ENVIRONMENT, config_path, load_user
from pilotfish.errors import PilotfishError, TurnError

ANSWER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    good: bool
    words: str
    remedy: str = ""


async def examine() -> int:
    """Print every finding. Returns 1 if a check failed."""
    console = Console(highlight=False, soft_wrap=True)
    failed = False
    for check in CHECKS:
        try:
            with console.status(f"Checking {check.__name__.lstrip('_')}…"):
                finding = await check()
        except Exception as error:
            finding = Finding(check.__name__.lstrip("_"), good=False, words=f"{type(error).__name__}: {error}")
        failed |= not finding.good
        mark = ("✓", "green") if finding.good else ("✗", "red")
        console.print(Text.assemble(mark, " ", (f"{finding.name:<10}", "bold"), finding.words))
        if finding.remedy:
            console.print(Text(f"    → {finding.remedy}", style="yellow"))
    return 1 if failed else 0


async def _pilotfish() -> Finding:
    libraries = ", ".join(f"{name} {version(name)}" for name in ("pygls", "pydantic-ai-slim", "pydantic"))
    return Finding("pilotfish", good=True, words=f"{__version__} ({libraries})")


async def _python() -> Finding:
    good = sys.version_info >= (3, 11)
    remedy = "" if good else "Install Python 3.11 or newer."
    return Finding("python", good, f"{platform.python_version()} on {platform.system()}", remedy)


async def _settings() -> Finding:
    loaded = load_user()
    if loaded.problems:
        words = "; ".join(f"{problem.source}: {problem.message}" for problem in loaded.problems)
        named = {field: name for name, field in ENVIRONMENT.items()}
        places = [
            named[problem.field] if problem.source == "environment" else str(config_path())
            for problem in loaded.problems
        ]
        return Finding("settings", good=False, words=words, remedy=f"Fix {', '.join(dict.fromkeys(places))}.")
    origin = ", ".join(f"{name} from {source}" for name, source in loaded.sources.items()) or "all defaults"
    return Finding("settings", good=True, words=origin)


async def _search() -> Finding:
    from pilotfish.workspace.search.ripgrep import find_rg

    try:
        path = find_rg()
    except PilotfishError as error:
        return Finding("ripgrep", good=False, words=str(error), remedy="Run `pip install ripgrep`.")
    return Finding("ripgrep", good=True, words=str(path))


async def _bash() -> Finding:
    found = shutil.which("bash")
    return Finding("bash", found is not None, found or "not found", "" if found else "Install bash.")


async def _sandbox() -> Finding:
    from pilotfish.workspace.process.sandbox import chosen_sandbox

    settings = load_user().settings
    found = await asyncio.to_thread(chosen_sandbox, settings)
    if found.bwrap is not None and found.read_only.stands:
        return Finding("sandbox", good=True, words=found.words)
    if settings.sandbox == "off":
        remedy = "Set `sandbox` to `auto` to have commands confined."
    elif sys.platform == "linux":
        remedy = "Install bubblewrap (`apt install bubblewrap`, `dnf install bubblewrap`): fewer questions, less risk."
    else:
        remedy = ""
    # Without a sandbox, `network = false` cannot be enforced: that is a failure.
    return Finding("sandbox", settings.network, f"{found.words}; approved commands run with your rights", remedy)


async def _store() -> Finding:
    from pilotfish.store.catalog import Catalog
    from pilotfish.store.ledger import Ledger

    ledger = Ledger.open(load_user().settings.storage)
    try:
        await Catalog(ledger).list(limit=1)
        unsaved = ledger.unsaved
        with tempfile.TemporaryFile(dir=ledger.directory):
            pass
    except OSError as error:
        return Finding(
            "store",
            good=False,
            words=f"{ledger.directory}: {error.strerror}",
            remedy="Make the folder writable, or free disk space.",
        )
    finally:
        await ledger.aclose()
    words = f"{ledger.directory}{f': {unsaved}' if unsaved else ''}"
    return Finding("store", unsaved is None, words, "" if unsaved is None else "Set `storage` to another folder.")


async def _model() -> Finding:
    from pilotfish.engine.model import resolve

    settings = load_user().settings
    try:
        address = str(getattr(resolve.resolve(settings.model, settings, {}), "base_url", None) or "")
    except TurnError as error:
        return Finding("model", good=False, words=f"{settings.model}: {error}", remedy=error.remedy)
    finally:
        await resolve.aclose()
    if settings.model == "demo":
        remedy = "Choose a real model: `PILOTFISH_MODEL`, `config.toml`, or the editor's settings."
        return Finding("model", good=True, words="demo (the embedded model)", remedy=remedy)
    found = {model.id: model for model in await resolve.available(settings, {})}
    known = found.get(settings.model)
    if known is not None and not known.available:
        return Finding(
            "model", good=False, words=f"{settings.model}: {known.reason}", remedy="Check the key and the address."
        )
    if address and (problem := await _connection_error(address)):
        remedy = "Check the network, the proxy and baseUrl. If the server is local, start it."
        return Finding(
            "model", good=False, words=f"{settings.model}: {address} does not answer: {problem}", remedy=remedy
        )
    return Finding("model", good=True, words=settings.model + (f" at {address}, which answers" if address else ""))


async def _connection_error(address: str) -> str | None:
    """Why an address does not answer, or None if it does. The request contains no key."""
    import httpx2

    try:
        async with httpx2.AsyncClient(timeout=ANSWER_SECONDS) as client:
            await client.get(f"{address.rstrip('/')}/models")
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return str(error) or type(error).__name__
    return None


async def _keys() -> Finding:
    names = [name for name in os.environ if name.endswith("_API_KEY")]
    return Finding("keys", good=True, words=", ".join(sorted(names)) or "none in the environment")


CHECKS: tuple[Callable[[], Awaitable[Finding]], ...] = (
    _pilotfish,
    _python,
    _settings,
    _search,
    _bash,
    _sandbox,
    _store,
    _model,
    _keys,
)
