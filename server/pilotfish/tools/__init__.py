"""The tools of the agent, as one explicit list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pilotfish.tools import (
    ask_user,
    bash,
    bash_output,
    diagnostics,
    find_symbol,
    glob,
    grep,
    list_dir,
    quick_fix,
    read_file,
    read_output,
    rename_symbol,
    research_codebase,
    symbols,
    update_file,
    update_plan,
    web_fetch,
    write_file,
)
from pilotfish.tools.tool import Tool

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
    rename_symbol.TOOL,
    quick_fix.TOOL,
    bash.TOOL,
    bash_output.TOOL,
    web_fetch.TOOL,
    research_codebase.TOOL,
    update_plan.TOOL,
    ask_user.TOOL,
    read_output.TOOL,
)

BY_NAME: Mapping[str, Tool[Any]] = {tool.name: tool for tool in TOOLS}
