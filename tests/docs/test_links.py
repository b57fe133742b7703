"""Every link in the documents leads somewhere, and every page of the site can be reached."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from tests.docs import pages
from tests.docs.pages import ROOT
from tests.docs.site import collect


@cache
def anchors(file: Path) -> frozenset[str]:
    return pages.anchors(file)


def broken(file: Path) -> list[str]:
    found: list[str] = []
    for link in pages.links(file):
        if not link.file.exists() or not link.file.is_relative_to(ROOT):
            found.append(f"{link.target}: there is no such file")
        elif link.anchor and link.anchor not in anchors(link.file):
            found.append(f"{link.target}: there is no such heading")
    return found


@pytest.mark.parametrize("file", pages.documents(), ids=lambda file: str(file.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(file: Path) -> None:
    assert broken(file) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = ROOT / "docs" / "acp.md"
    text = tmp_path / "page.md"
    text.write_text(
        f"# Title\n\n## A & b\n\n[a](gone.md) [b](#a--b) [c](#nothing) `[d](e.md)` [f]({page}#x)\n", "utf-8"
    )
    assert [link.target for link in pages.links(text)] == ["gone.md", "#a--b", "#nothing", f"{page}#x"]
    assert anchors(text) == {"title", "a--b"}
    assert "gone.md: there is no such file" in broken(text)
    assert f"{page}#x: there is no such heading" in broken(text)


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    project = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]

    def names(entry: Any) -> list[str]:
        match entry:
            case str():
                return [entry]
            case list():
                return [name for each in cast("list[Any]", entry) for name in names(each)]
            case dict():
                return [name for each in cast("dict[str, Any]", entry).values() for name in names(each)]
            case _:
                raise TypeError(entry)

    assert sorted(names(project["nav"])) == sorted(pages.site_pages().values())


def test_the_links_of_the_site_lead_from_page_to_page(tmp_path: Path) -> None:
    collect(tmp_path)
    collected = sorted(tmp_path.glob("*.md"))
    assert {file.name for file in collected} == {*pages.site_pages().values()}
    lost = [f"{file.name}: {link.target}" for file in collected for link in pages.links(file) if not link.file.exists()]
    assert lost == []
