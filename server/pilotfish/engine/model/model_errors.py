"""The errors for a model that cannot be used as it is configured, each with a remedy."""

from __future__ import annotations

import importlib.metadata
from difflib import get_close_matches

from pydantic_ai import exceptions as library
from pydantic_ai.models import known_model_names

from pilotfish.engine.model.catalog.providers import package_for
from pilotfish.engine.model.failures.errors import redact
from pilotfish.errors import TurnError


def cannot_import(model: str, prefix: str, error: ImportError) -> TurnError:
    """The error for a package that is missing, or that is installed in a version that cannot be loaded."""
    cause = _first_cause(error)
    package = _distribution_of(cause.name or prefix)
    if package is None:
        return TurnError(
            f"The model {model} needs a package that is not installed: {_package_name(cause.name or prefix)}.",
            remedy=f"Install it beside Pilotfish: pip install '{package_for(prefix)}'.",
            kind="configuration",
        )
    return TurnError(
        f"The model {model} needs the package {package}, and the installed version"
        f" {importlib.metadata.version(package)} could not be loaded: {cause}.",
        remedy="Install the versions that this Pilotfish was tested with: pip install --force-reinstall pilotfish.",
        kind="configuration",
    )


def not_configured(prefix: str, error: library.UserError) -> TurnError:
    """The error for a missing setting of a provider. The library's message names the environment variable."""
    message = error.message.partition("To try Pydantic AI")[0].strip()
    return TurnError(
        f"The provider {prefix} is not configured.",
        remedy=redact(message),
        kind="authentication" if "KEY" in message or "TOKEN" in message else "configuration",
    )


def unknown(model: str) -> TurnError:
    if model.startswith("openai-compatible:") and model.partition(":")[2].strip():
        return TurnError(
            f"The model {model} is one of a server whose address is not set.",
            remedy="Set baseUrl (in the environment PILOTFISH_BASE_URL) to it, such as http://127.0.0.1:8000/v1.",
            kind="configuration",
        )
    names = [name for name in known_model_names() if not name.startswith("gateway/")]
    same = sorted((name for name in names if name.partition(":")[2] == model), key=len)
    close = same or get_close_matches(model, names, 1, 0.7)
    hint = f"Did you mean {close[0]}? " if close else ""
    why = "is not known" if ":" in model else "names no provider, and baseUrl is not set"
    return TurnError(
        f"The model {model} {why}.",
        remedy=f"{hint}A model is written provider:name, such as anthropic:claude-sonnet-5-5, or just its name when"
        " baseUrl is the address of an OpenAI-compatible server. The model `demo` needs no key.",
        kind="configuration",
    )


def invalid_key(label: str) -> TurnError:
    return TurnError(
        f"The API key for {label} has invalid characters.",
        remedy="Copy the key again from the provider's page, and set it again.",
        kind="authentication",
    )


def _first_cause(error: ImportError) -> ImportError:
    """The original import error: pydantic-ai wraps it in one that asks to install the package, whatever the cause."""
    while isinstance(error.__cause__, ImportError):
        error = error.__cause__
    return error


def _distribution_of(module: str) -> str | None:
    """The installed package that contains a module. Several packages share the namespace `google`."""
    found = importlib.metadata.packages_distributions().get(module.partition(".")[0], [])
    name = _package_name(module)
    return name if name in found else next(iter(found), None) if name != "google-genai" else None


def _package_name(module: str) -> str:
    return "google-genai" if module.partition(".")[0] == "google" else module.partition(".")[0]
