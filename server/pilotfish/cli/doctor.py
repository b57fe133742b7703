"""`pilotfish doctor`: checks the installation and prints a remedy for each problem."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.text import Text

from pilotfish import __version__
from pilotfish.config.managed_policy import managed_policy, policy_path
from pilotfish.config.settings import ENVIRONMENT, config_path, load_user, mcp_path
from pilotfish.errors import PilotfishError, TurnError

ANSWER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    good: bool
    words: str
    remedy: str = ""


Check = Callable[[], Awaitable[Finding]]


async def examine() -> int:
    """Print every finding. Returns 1 if a check failed."""
    return await run_checks(CHECKS)


async def run_checks(checks: Sequence[Check]) -> int:
    """Run checks and print every finding. Returns 1 if a check failed."""
    console = Console(highlight=False, soft_wrap=True)
    failed = False
    for check in checks:
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


async def _managed() -> Finding:
    policy = managed_policy()
    words = "; ".join(policy.words()) or f"nothing ({policy_path()} does not exist)"
    remedy = "Ask your administrator to correct it; no turn runs until then." if policy.problem else ""
    return Finding("managed", policy.problem is None, words, remedy)


async def _telemetry() -> Finding:
    from pilotfish.telemetry.export import REMEDY, can_export

    if not load_user().settings.telemetry:
        return Finding("telemetry", good=True, words="off")
    if not can_export():
        return Finding("telemetry", good=False, words="packages for the export are missing", remedy=REMEDY)
    endpoint = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
    return Finding("telemetry", good=True, words=f"traces and metrics, by OTLP over HTTP, to {endpoint}")


async def _search() -> Finding:
    from pilotfish.workspace.search.ripgrep import find_rg

    try:
        path = find_rg()
    except PilotfishError as error:
        return Finding("ripgrep", good=False, words=str(error), remedy="Run `pip install ripgrep`.")
    return Finding("ripgrep", good=True, words=str(path))


async def _bash() -> Finding:
    from pilotfish.workspace.own_programs import find_program

    found = find_program("bash")
    return Finding("bash", found is not None, found or "not found", "" if found else "Install bash.")


async def _sandbox() -> Finding:
    from pilotfish.workspace.sandbox.sandbox import chosen_sandbox

    settings = load_user().settings
    found = await asyncio.to_thread(chosen_sandbox, settings)
    if found.bwrap is not None and found.read_only.stands:
        return Finding("sandbox", good=True, words=found.words)
    if settings.sandbox == "off":
        remedy = "Set `sandbox` to `auto` to run commands in a sandbox."
    elif sys.platform == "linux":
        remedy = "Install bubblewrap (`apt install bubblewrap`, `dnf install bubblewrap`): fewer questions, less risk."
    else:
        remedy = ""
    # Without a sandbox, `network = false` cannot be enforced: that is a failure.
    return Finding("sandbox", settings.network, f"{found.words}; approved commands run with your rights", remedy)


async def _store() -> Finding:
    from pilotfish.errors import StorageError
    from pilotfish.store.catalog import Catalog
    from pilotfish.store.ledger import Ledger
    from pilotfish.store.locks import make_private

    ledger = Ledger.open(load_user().settings.storage)
    try:
        await Catalog(ledger).list(limit=1)
        unsaved = ledger.unsaved
        make_private(ledger.directory)  # with a database elsewhere, nothing may have been kept here yet
        with tempfile.TemporaryFile(dir=ledger.directory):
            pass
    except StorageError as error:
        return Finding("store", good=False, words=str(error), remedy=error.remedy)
    except OSError as error:
        return Finding(
            "store",
            good=False,
            words=f"{ledger.directory}: {error.strerror}",
            remedy="Make the folder writable, or free disk space.",
        )
    finally:
        await ledger.aclose()
    words = f"{ledger.description}{f': {unsaved}' if unsaved else ''}"
    return Finding("store", unsaved is None, words, "" if unsaved is None else "Set `storage` to another place.")


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
    if address and (problem := await connection_error(address)):
        remedy = "Check the network, the proxy and baseUrl. If the server is local, start it."
        return Finding(
            "model", good=False, words=f"{settings.model}: {address} does not answer: {problem}", remedy=remedy
        )
    return Finding("model", good=True, words=settings.model + (f" at {address}, which answers" if address else ""))


async def connection_error(address: str) -> str | None:
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


async def _mcp() -> Finding:
    """Start or reach every MCP server of the configuration, as a turn does."""
    from pilotfish.engine.mcp.servers import Servers

    settings = load_user().settings
    config = mcp_path(settings)
    if settings.mcp_config is None and not config.is_file():
        return Finding("mcp", good=True, words="no servers (`mcpConfig` is not set)")
    servers = Servers(lambda: (Path.cwd(),), fault_of=managed_policy().server_fault)
    servers.use(config)
    try:
        await servers.settled()
        found = [*servers.found.values()]
    finally:
        await servers.aclose()
    words = [f"{one.name}: {f'{one.tools} tools' if one.available else one.reason}" for one in found]
    good = all(one.available for one in found)
    return Finding("mcp", good, "; ".join(words) or "the file names no servers", "" if good else f"Correct {config}.")


CHECKS: tuple[Check, ...] = (
    _pilotfish,
    _python,
    _settings,
    _managed,
    _search,
    _bash,
    _sandbox,
    _store,
    _model,
    _keys,
    _mcp,
    _telemetry,
)
