"""Generates `docs/providers.md`: every provider by its prefix. `make generate` writes it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pilotfish.engine.model.catalog.providers import ALIASES, KNOWN, LOCAL, OTHERS, package_for
from pilotfish.engine.model.local.weights import KNOWN as WEIGHTS
from pilotfish.engine.model.local.weights import PREFIX
from pilotfish.text.markdown_table import code, table

TARGET = Path(__file__).parents[5] / "docs" / "providers.md"
HEAD = """# Providers

A model is written `prefix:name`, such as `anthropic:claude-sonnet-4-5`. This page is generated (`make generate`).
`pilotfish doctor --provider PREFIX` checks the key, the address and one small request.

"""
TESTED = {
    "anthropic": "scripted server of the Anthropic API",
    "google": "scripted server of the Google API",
    "openai": "scripted server of the Responses and Chat APIs",
}
IN_PROCESS = """
### In this process, without a server

`pip install 'pilotfish[local]'` runs small models with llama.cpp, and nothing leaves the machine. `pilotfish download`
gets the weights (HF_ENDPOINT and PILOTFISH_MODELS change the hub and the folder); `local:/path/to/a/file.gguf` uses a
file that you have.

"""
IN_EDITOR = """
## Of the editor

In VS Code, the language models of other extensions (`vscode.lm`) can be used without a key, such as those of a GitHub
Copilot subscription: `vscode:copilot/gpt-4.1`. VS Code sends the requests and may ask whether Pilotfish is allowed to.
It does not count tokens, so usage and budget are estimated.
"""
OTHER_HEAD = """
## Through the library

The library reads their settings from the environment. They are not tested here.

"""
ENDPOINTS = """
## Endpoints of your own

Any number of servers stand side by side in `config.toml`. Their models are called `name:model`. In VS Code, “Connect a
model… → Custom endpoint…” writes this entry and tries it; the key stays in VS Code's secret storage.

```toml
[[endpoints]]
name = "work"
url = "https://gateway.example/v1"
api = "chat"                    # or "responses", "anthropic", "google"
keyVariable = "WORK_API_KEY"    # or set the key in the editor, under the endpoint's name
```

The setting `baseUrl` changes the address of the provider that `model` names. Without a prefix, a model is one of the
OpenAI-compatible server at `baseUrl`.
"""


def render() -> str:
    """The text of the page."""
    scripted = "scripted server, through `baseUrl`"
    hosted = [
        (known.prefix, known.label, ", ".join(map(code, known.variables)), TESTED.get(known.prefix, scripted))
        for known in KNOWN
    ]
    local = [
        (server.prefix, server.label, code(server.base_url), code(f"{server.prefix.upper()}_BASE_URL"))
        for server in LOCAL
    ]
    in_process = [
        (PREFIX, code(each.name), f"{each.size / 1e9:.1f} GB", each.licence, code(each.repository)) for each in WEIGHTS
    ]
    others = [
        (
            other.prefix,
            other.label,
            code(package_for(other.prefix)) if other.extra else "",
            ", ".join(map(code, other.variables)),
        )
        for other in OTHERS
    ]
    aliases = [(alias, f"`{prefix}:`") for alias, prefix in sorted(ALIASES.items())]
    return "".join(
        (
            HEAD,
            "## With a key\n\n",
            _by_prefix(("prefix", "provider", "variables that may hold the key", "tested with"), hosted),
            "\n## On this machine\n\n",
            _by_prefix(("prefix", "server", "address", "variable for another address"), local),
            IN_PROCESS,
            _by_prefix(("prefix", "name", "size", "licence", "repository"), in_process),
            IN_EDITOR,
            OTHER_HEAD,
            _by_prefix(("prefix", "provider", "package to install", "variables"), others),
            "\n## Other names\n\n",
            _by_prefix(("name", "means"), aliases),
            ENDPOINTS,
        )
    )


def _by_prefix(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return table(head, ((code(f"{row[0]}:"), *row[1:]) for row in rows)) + "\n"


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(render(), "utf-8")
