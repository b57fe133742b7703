"""The Markdown files of the repository: their links and their anchors, and which of them are pages of the site."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]

INCLUDED = {
    "README.md": "overview.md",
    "server/SECURITY.md": "security.md",
    "server/ARCHITECTURE.md": "architecture.md",
    "server/PROTOCOL.md": "protocol.md",
    "server/BENCHMARKS.md": "benchmarks.md",
    "server/CHAOS.md": "chaos.md",
    "server/pilotfish/tools/README.md": "adding-a-tool.md",
    "client-vscode/README.md": "vscode.md",
    "client-nvim/README.md": "neovim.md",
    "client-emacs/README.md": "emacs.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "EVALS.md": "evals.md",
}
"""file outside of `docs/` → the page that it is on the site"""
PROMPTS = "server/pilotfish/engine/instructions/"
"""texts for models, which are no documents"""
TEMPLATE = "server/pilotfish/protocol/reference.md"
"""the prose of PROTOCOL.md, whose links are those of the page that is made from it"""


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a file of the repository, or to an anchor."""

    target: str
    """as it is written"""
    file: Path
    anchor: str


def documents() -> list[Path]:
    """Every Markdown file that belongs to the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    return [ROOT / name for name in sorted(listed) if not name.startswith(PROMPTS) and name != TEMPLATE]


def site_pages() -> dict[Path, str]:
    """file → its name on the site"""
    own = {file: file.name for file in sorted((ROOT / "docs").glob("*.md"))}
    return own | {ROOT / name: page for name, page in INCLUDED.items()}


def links(file: Path) -> Iterator[Link]:
    """The links and images of a document that lead to a file, or to an anchor."""
    for token in _inline(file):
        for target in _targets(token):
            if not re.match(r"[a-z][a-z+.-]*:|//", target):
                path, _, anchor = unquote(target).partition("#")
                yield Link(target, (file.parent / path).resolve() if path else file, anchor)


def anchors(file: Path) -> frozenset[str]:
    """The anchors of the headings, as GitHub makes them. A second heading of the same text has `-1`."""
    found: dict[str, int] = {}
    names: set[str] = set()
    tokens = _parse(file)
    for opening, inline in itertools.pairwise(tokens):
        if opening.type == "heading_open":
            text = "".join(each.content for each in inline.children or () if each.type in {"text", "code_inline"})
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            count = found.get(slug, 0)
            names.add(f"{slug}-{count}" if count else slug)
            found[slug] = count + 1
    return frozenset(names)


def _targets(token: Token) -> list[str]:
    if token.type in {"html_block", "html_inline"}:
        return re.findall(r"""(?:href|src|srcset)="([^"]*)\"""", token.content)
    return [str(token.attrs[name]) for name in ("href", "src") if name in token.attrs]


def _inline(file: Path) -> Iterator[Token]:
    for token in _parse(file):
        yield from token.children or (token,)


def _parse(file: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(file.read_text("utf-8"))
