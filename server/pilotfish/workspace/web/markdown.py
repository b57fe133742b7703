"""Converts a web page to Markdown, without menus, scripts and hidden elements."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urljoin

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

MAX_HTML = 2_000_000
"""characters that are turned into Markdown; the parser takes about a second for them"""
MAIN_SHARE = 0.4
"""a main part with this share of the page's text is taken for the page"""

_DROPPED = frozenset(
    {
        "script",
        "style",
        "noscript",
        "template",
        "svg",
        "canvas",
        "iframe",
        "object",
        "embed",
        "link",
        "meta",
        "map",
        "title",
    }
    | {"form", "button", "input", "select", "textarea", "dialog", "video", "audio", "source"}
    | {"nav", "footer", "aside"}
)
_HIDDEN_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0|opacity\s*:\s*0(?:[;\s]|$)", re.IGNORECASE
)
_BLANKS = re.compile(r"\n{3,}")


def to_markdown(html: str, url: str) -> tuple[str, str]:
    """(title, Markdown). Blocking: call it in a thread."""
    from bs4 import BeautifulSoup, Comment
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(html[:MAX_HTML], "html.parser")
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    for comment in soup.find_all(string=lambda text: isinstance(text, Comment)):
        comment.extract()
    for tag in soup.find_all(_is_dropped):
        tag.decompose()
    body = _main(soup)
    for link in body.find_all("a", href=True):
        link["href"] = _link(url, str(link["href"]))
    for image in body.find_all("img"):
        image.replace_with(str(image.get("alt") or ""))
    try:
        converter: Any = MarkdownConverter(heading_style="ATX", bullets="-", autolinks=True, newline_style="backslash")
        text = cast("str", converter.convert_soup(body))
    except RecursionError:  # a page nested deeper than any reader goes
        text = body.get_text("\n", strip=True)
    lines = [line.rstrip() for line in text.splitlines()]
    return title, _BLANKS.sub("\n\n", "\n".join(lines)).strip()


def _is_dropped(tag: Tag) -> bool:
    if tag.name in _DROPPED:
        return True
    hidden = tag.has_attr("hidden") or tag.get("aria-hidden") == "true"
    return hidden or bool(_HIDDEN_STYLE.search(str(tag.get("style") or "")))


def _main(soup: BeautifulSoup) -> Tag:
    """The main part of the page, if it can be recognised."""
    body = soup.body or soup
    whole = len(body.get_text())
    for part in (soup.find("main"), soup.find("article"), soup.find(role="main")):
        if part is not None and len(part.get_text()) >= MAIN_SHARE * whole:
            return part
    return body


def _link(base: str, href: str) -> str:
    try:
        absolute = urljoin(base, href)
    except ValueError:
        return ""
    return absolute if absolute.startswith(("http://", "https://", "mailto:")) else ""
