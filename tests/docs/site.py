"""Collects the pages of the site in one folder, for `make docs`: `python -m tests.docs.site .site/pages`.

Documents that stand beside the code are pages too. Their links lead from page to page; a link to a file that is no page
becomes plain text, because the site has no source files. Images are copied.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from tests.docs.pages import ROOT, Link, links, site_pages


def collect(folder: Path) -> None:
    """Write every page into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    known = site_pages()
    for file, name in known.items():
        text = file.read_text("utf-8")
        for link in {link.target: link for link in links(file)}.values():
            text = _replaced(text, link, known, folder)
        (folder / name).write_text(text, "utf-8")


def _replaced(text: str, link: Link, known: dict[Path, str], folder: Path) -> str:
    if link.file.suffix in {".png", ".svg"}:
        shutil.copyfile(link.file, folder / link.file.name)
        return text.replace(link.target, link.file.name)  # also in HTML
    page = known.get(link.file)
    written = rf"\[([^\]\[]*)\]\({re.escape(link.target)}\)"
    shown = r"\1" if page is None else rf"[\1]({page}{'#' if link.anchor else ''}{link.anchor})"
    return re.sub(written, shown, text)


if __name__ == "__main__":
    collect(ROOT / sys.argv[1])
