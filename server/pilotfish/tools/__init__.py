"""The tools of the agent, as one explicit list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pilotfish.tools.agent import ask_user, read_skill, remember, research_codebase, task, update_plan
from pilotfish.tools.code import diagnostics, find_symbol, quick_fix, rename_symbol, report_finding, symbols
from pilotfish.tools.commands import bash, bash_output, read_output
from pilotfish.tools.files import (
    apply_patch,
    delete_file,
    edit_notebook,
    glob,
    grep,
    list_dir,
    move_file,
    read_file,
    update_file,
    write_file,
)
from pilotfish.tools.tool import Tool
from pilotfish.tools.web import web_fetch, web_search

TOOLS: tuple[Tool[Any], ...] = (
    read_file.TOOL,
    list_dir.TOOL,
    glob.TOOL,
    grep.TOOL,
    find_symbol.TOOL,
    symbols.TOOL,
    diagnostics.TOOL,
    update_file.TOOL,
    write_file.TOOL,
    edit_notebook.TOOL,
    apply_patch.TOOL,
    move_file.TOOL,
    delete_file.TOOL,
    rename_symbol.TOOL,
    quick_fix.TOOL,
    bash.TOOL,
    bash_output.TOOL,
    web_fetch.TOOL,
    web_search.TOOL,
    research_codebase.TOOL,
    task.TOOL,
    update_plan.TOOL,
    report_finding.TOOL,
    ask_user.TOOL,
    read_output.TOOL,
    read_skill.TOOL,
    remember.TOOL,
)

BY_NAME: Mapping[str, Tool[Any]] = {tool.name: tool for tool in TOOLS}
