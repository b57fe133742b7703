"""The tables of other agents' names: tools, arguments and values that mean one of ours.

Names are compared by `key`: without case and punctuation, so `filePath` and `file_path` need one row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

_TOOLS: Mapping[str, str] = {
    "read_file": "read view view_file open open_file cat fs_read file_read read_many_files get_file_contents",
    "list_dir": "ls list list_files list_directory list_folder dir read_directory directory_tree",
    "glob": "find_files file_search find find_file glob_file_search search_for_files find_by_name",
    "grep": "search rg ripgrep grep_search search_files search_file_content search_text find_in_files code_search",
    "update_file": """edit edit_file str_replace replace multi_edit search_replace search_and_replace replace_in_file
        replace_string_in_file multi_replace_string_in_file str_replace_editor str_replace_based_edit_tool
        text_editor string_replace modify_file edit_block apply_edit file_edit""",
    "write_file": """write create create_file write_to_file save_file fs_write new_file overwrite_file file_write
        create_new_file put_file""",
    "edit_notebook": "notebook_edit edit_notebook_file edit_notebook_cell notebook_edit_cell",
    "apply_patch": "patch applypatch apply_diff_patch",
    "move_file": "mv move rename rename_file move_path rename_path",
    "delete_file": "rm delete remove remove_file unlink delete_path",
    "bash": """shell sh exec execute run terminal command execute_command run_command run_terminal_cmd exec_command
        run_in_terminal run_shell_command shell_command local_shell container_exec execute_bash execute_shell_command
        run_bash run_bash_command bash_command run_terminal_command run_shell""",
    "bash_output": """task_output kill_shell kill_bash get_terminal_output command_status check_command_status
        get_command_output read_background_output""",
    "web_fetch": "fetch fetch_url read_url fetch_webpage url_fetch http_get read_web_page read_url_content",
    "web_search": "search_web google_search internet_search google_web_search web_search_call websearch brave_search",
    "update_plan": "todo_write todo write_todos todos manage_todo_list update_todo_list set_plan plan update_todos",
    "report_finding": "add_finding review_comment add_review_comment report_issue report_problem add_comment",
    "ask_user": "ask_user_question ask_followup_question ask question ask_human request_user_input clarify",
    "task": "agent dispatch_agent run_task new_task subagent run_subagent delegate spawn_agent launch_agent",
    "research_codebase": "codebase_search codebase_investigator explore search_codebase semantic_search",
    "symbols": "document_symbols workspace_symbols outline list_code_usages_symbols list_symbols",
    "find_symbol": "go_to_definition goto_definition find_references definition references list_code_usages",
    "diagnostics": "get_diagnostics get_errors problems get_problems lint_errors read_lints",
    "rename_symbol": "lsp_rename refactor_rename",
    "read_output": "read_tool_output get_tool_output",
    "remember": "save_memory memory add_memory memorize update_memory create_memory",
    "read_skill": "skill load_skill use_skill activate_skill get_skill",
}

_PATH = "file filename file_path filepath target_file target_path relative_path absolute_path uri paths file_name"
_FOLDER = f"""{_PATH} dir directory folder dir_path directory_path target_directory relative_workspace_path cwd root
    base_path search_path search_directory in include_path"""
_LIMIT = "max_results head_limit max_count max_matches n_results top_k num_results"

_ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "read_file": {
        "path": _PATH,
        "offset": "start_line line_start start from from_line first_line line start_line_number line_offset"
        " start_line_one_indexed",
        "limit": "line_limit max_lines num_lines count lines_to_read line_count",
    },
    "list_dir": {"path": _FOLDER, "depth": "max_depth levels"},
    "glob": {"pattern": "glob glob_pattern query file_pattern name search", "path": _FOLDER, "limit": _LIMIT},
    "grep": {
        "pattern": "query regex search search_pattern search_term text regexp regex_pattern q",
        "path": _FOLDER,
        "glob": "include include_pattern file_pattern file_glob glob_pattern include_glob file_type_glob",
        "mode": "output_mode",
        "literal": "fixed_strings is_literal fixed literal_string",
        "ignore_case": "i case_insensitive insensitive",
        "context": "c context_lines lines_of_context before_after a b",
        "include_ignored": "no_ignore include_hidden",
        "limit": _LIMIT,
    },
    "update_file": {"path": _PATH, "edits": "changes replacements edit operations updates modifications"},
    "update_file.edits": {
        "old_string": "old_str old old_text search find original before target original_text search_text old_content"
        " old_code search_string target_content from",
        "new_string": "new_str new new_text replace replacement updated after new_content replace_text replace_with"
        " new_code replacement_content replace_string to with",
        "replace_all": "replaceall all everywhere global allow_multiple replace_every",
    },
    "write_file": {
        "path": _PATH,
        "content": "contents text file_text file_content data new_content body code file_contents source",
    },
    "edit_notebook": {
        "path": f"{_PATH} notebook_path target_notebook",
        "cell": "cell_number cell_index cell_id",
        "source": "new_source content text new_string code",
        "action": "edit_mode mode",
        "kind": "cell_type cell_language",
    },
    "apply_patch": {"patch": "input patch_text diff command text content patch_content changes cmd"},
    "move_file": {
        "path": f"{_PATH} source src from old_path old source_path from_path",
        "to": "destination dest target new_path new destination_path to_path target_path new_name",
    },
    "delete_file": {"path": f"{_PATH} target"},
    "bash": {
        "command": "cmd script code command_line bash shell_command input commands shell",
        "timeout": "timeout_seconds timeout_s timeout_sec max_time",
        "background": "run_in_background is_background background_process async detach",
    },
    "bash_output": {
        "id": "bash_id shell_id task_id process_id job_id terminal_id command_id pid",
        "wait": "wait_seconds timeout",
        "until": "filter pattern wait_for",
    },
    "web_fetch": {"url": "uri link address href urls"},
    "web_search": {"query": "q search_term search_query prompt question text"},
    "report_finding": {
        "path": _PATH,
        "line": "line_number start_line lineno",
        "message": "text body comment description finding issue",
        "severity": "level priority",
        "related": "related_places references",
    },
    "update_plan": {"steps": "todos plan items tasks todo_list todo entries list"},
    "update_plan.steps": {
        "content": "step text title task description name todo item",
        "status": "state",
        "priority": "importance",
    },
    "ask_user": {"question": "prompt query message text", "options": "choices answers suggestions follow_up"},
    "research_codebase": {"question": "prompt query task objective instructions search goal"},
    "task": {"title": "description name summary", "prompt": "instructions task objective message goal"},
    "symbols": {"path": _PATH, "query": "name symbol search pattern"},
    "find_symbol": {
        "path": _PATH,
        "line": "line_number start_line row",
        "name": "symbol symbol_name identifier",
        "find": "kind action",
    },
    "diagnostics": {"path": _PATH},
    "rename_symbol": {
        "path": _PATH,
        "line": "line_number row",
        "name": "symbol old_name symbol_name",
        "new_name": "new_symbol to new",
    },
    "quick_fix": {"path": _PATH, "line": "line_number row"},
    "read_output": {
        "call_id": "id tool_call_id",
        "line": "offset start_line start",
        "count": "limit lines line_count num_lines",
    },
    "remember": {"note": "fact text content memory knowledge", "scope": "level target"},
    "read_skill": {"name": "skill skill_name command id", "file": "path resource file_path resource_path"},
}

_VALUES: Mapping[str, Mapping[str, str]] = {
    "update_plan.steps.status": {
        "pending": "todo not_started open queued waiting planned upcoming incomplete",
        "in_progress": "doing active current started running wip ongoing",
        "completed": "done complete finished closed cancelled canceled skipped",
    },
    "update_plan.steps.priority": {"high": "urgent critical important", "medium": "normal default", "low": "minor"},
    "grep.mode": {"lines": "content text matches", "files": "files_with_matches paths names", "count": "counts"},
    "bash_output.action": {"stop": "kill terminate", "read": "get output status poll"},
}


def key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def _by_key(rows: Mapping[str, str], plain: Sequence[str] = ()) -> Mapping[str, str]:
    found = {key(name): ours for ours, names in rows.items() for name in names.split()}
    return MappingProxyType(found | {key(ours): ours for ours in (*rows, *plain)})


TOOL_NAMES = _by_key(_TOOLS, ("quick_fix",))
"""key of a tool's name → our name"""

ARGUMENT_NAMES = {owner: _by_key(rows) for owner, rows in _ARGUMENTS.items()}
"""tool, or `tool.argument` for the items of a list → key of an argument's name → our name"""

VALUE_NAMES = {owner: _by_key(rows) for owner, rows in _VALUES.items()}
"""`tool.argument` → key of a value → our value"""


def spellings() -> dict[str, str]:
    """The names that models use → our names: as in the table, and in the usual ways to write several words."""
    found: dict[str, str] = {}
    for ours, names in (*_TOOLS.items(), ("quick_fix", "")):
        for name in (ours, *names.split()):
            words = name.split("_")
            pascal = "".join(word.title() for word in words)
            found |= dict.fromkeys(
                (name, "".join(words), "-".join(words), pascal, pascal[:1].lower() + pascal[1:]), ours
            )
            if len(name) <= 2:
                found[name.upper()] = ours
        for prefix in ("functions_", "default_api_", "tools_"):
            found[prefix + ours] = ours
    return found


PREFIXES = ("functions", "function", "defaultapi", "tools", "tool", "builtin", "antml")
"""what some models put before a tool's name, as `functions.read_file`"""
