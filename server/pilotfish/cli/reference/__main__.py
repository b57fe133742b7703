"""Writes every page: `python -m pilotfish.cli.reference`."""

from __future__ import annotations

from pilotfish.cli.reference import commands_page, settings_page, tools_page

for page in (settings_page, commands_page, tools_page):
    page.TARGET.write_text(page.render(), "utf-8")
