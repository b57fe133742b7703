"""What the scripted guide says about Pilotfish itself: answers to questions, by topic."""

from __future__ import annotations

import re

HOW_TO = """To work with a real model, choose **Connect a model** in VS Code, or write into `config.toml`:

- **Hosted**: `model = "anthropic:claude-sonnet-5-5"` or `"openai:gpt-6.1-sol"`, with the key in the environment \
(`ANTHROPIC_API_KEY` and so on).
- **On this machine, nothing leaves it**: start Ollama, LM Studio, llama.cpp or vLLM; it is found and offered in the \
list of models. Or install `pilotfish[local]` and choose the small model `local:qwen2.5-coder-1.5b`.
- **A server of your own**: an entry of `[[endpoints]]` with a name and its address; its models are `name:model`."""

WHO = """No model is connected: I am a scripted guide. I know this product, and I can show you a turn on your own \
files: say **tour**.

Ask me about **modes**, **models** and keys, **approvals** and rules, **undo** and review, **stop** and the queue, \
**sessions**, **mentions** and commands, **instructions** (AGENTS.md), **MCP**, or **privacy** and cost."""

ANSWERS: tuple[tuple[str, str, str], ...] = (
    (
        "mode",
        r"modes?",
        """A mode says which calls run without a question. `/mode NAME` changes it, or the picker below the prompt.

- `ask` (the default): reading runs at once, changes and other commands are shown to you first.
- `plan`: nothing is changed; the agent investigates and presents a plan.
- `edit`: edits and commands that stay inside the workspace run at once, the others are asked about.
- `auto`: calls run without a question unless a rule says otherwise.""",
    ),
    (
        "approvals",
        r"approv\w*|permissions?|allow\w*|den(?:y|ied)|rules?|trust\w*|safe\w*|sandbox\w*|secur\w*",
        """Before a change or a command you see exactly what would happen, and you answer: *Allow*, *Allow for this \
session*, *Always allow* (a rule, shown before you choose it) or *Deny*. Words that you add to a denial go to the \
model, and you can change an edit or a command before you allow it.

Commands that only read run in a read-only sandbox without a question. In a folder that you do not trust nothing is \
changed and nothing runs. `pilotfish policy check` says what the policy decides about a call, and why.""",
    ),
    (
        "undo",
        r"undo|redo|revert\w*|restore\w*|roll ?back|review\w*|hunks?",
        """Every change of a turn can be taken back: *Undo* at the turn, `/undo`, or the review, which lists what you \
have not kept yet and keeps or undoes it hunk by hunk. What you typed meanwhile stays. `/redo` in the terminal, or \
*Redo*, brings the changes back. What a command did outside the files of the workspace cannot be undone.""",
    ),
    (
        "stop",
        r"stop\w*|cancel\w*|interrupt\w*|abort|pause|queue\w*|steer\w*",
        """*Stop* (Ctrl+C in the terminal) ends the turn at once: the model's answer, and the commands with all their \
processes. What was done stays, and undo still works. A prompt that you send while a turn runs waits in the queue, or \
is read by the model at its next step if you choose to steer.""",
    ),
    (
        "sessions",
        r"sessions?|histor\w+|resume|export|fork|conversations?|chats?",
        """A conversation is a session. Sessions are stored on this machine as they happen and survive a crash. The \
list opens, searches, renames, copies and deletes them; `/clear` starts a new one, `/compact` replaces the older part \
by a summary, `/export` gives the text. In the terminal: `pilotfish sessions`, and `pilotfish chat --continue`.""",
    ),
    (
        "privacy",
        r"privacy|private|telemetry|data|leaves?|uploads?|costs?|prices?|free|tokens?|budget|context",
        """What the model needs goes to the provider that you choose, and nowhere else; there is no telemetry. With \
the guide, or a model on this machine, nothing leaves it. Files with secrets are asked about, and keys in results are \
masked. The status line shows the context that is used and what the session has cost; a budget can stop a turn.""",
    ),
    (
        "mentions",
        r"mention\w*|attach\w*|@|slash|commands?|shortcuts?|keys? ?bindings?",
        """`@` in a prompt mentions a file, a folder or a symbol, and `/` lists the commands: `/help` explains them. \
Your own commands are Markdown files in `commands/` beside `config.toml`, or in `.pilotfish/commands`.""",
    ),
    (
        "instructions",
        r"agents\.?md|claude\.?md|instructions?|conventions?|guidelines?|memory",
        """Write what every task should follow into `AGENTS.md` in the root of the folder, or of an inner folder. \
`CLAUDE.md`, `.github/copilot-instructions.md` and `.cursor/rules` are read too. They are used when you trust the \
folder.""",
    ),
    (
        "mcp",
        r"mcp|tools?|extensions?|plugins?",
        """The agent reads, searches and edits files, runs commands, fetches web pages, and asks the editor's \
language servers. MCP servers add tools: name them in the setting `mcpServers`. Each of their calls is asked about \
until you allow it by a rule.""",
    ),
    (
        "models",
        r"models?|keys?|api|connect\w*|providers?|ollama|openai|anthropic|gemini|claude|gpt\S*|local\w*|llms?|offline",
        HOW_TO,
    ),
)
"""(topic, pattern of the words that ask for it, answer), the first that matches counts"""

_ASKS = re.compile(
    r"\?|^(?:how|what|which|where|when|who|why|can|could|does|do|is|are|help|tell|explain)\b", re.IGNORECASE
)
_ABOUT_ME = re.compile(
    r"^\W*(?:help|hi|hello|hey|who|what are you|what is (?:this|pilotfish)|what can (?:you|i)|pilotfish)\b",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"^\W*(?:please |now |can you |could you )*(?:add|fix|change|make|write|create|implement|refactor|rename|remove"
    r"|delete|update|use|run|show|review|document|try|go|start)\b",
    re.IGNORECASE,
)
FEW_WORDS = 3


def answer(asked: str) -> str | None:
    """The answer to a question about Pilotfish. None if the prompt is something else."""
    if _ORDER.match(asked) or (not _ASKS.search(asked.strip()) and len(asked.split()) > FEW_WORDS):
        return None
    for _, pattern, text in ANSWERS:
        if re.search(rf"(?<![\w/.])(?:{pattern})(?!\w)", asked, re.IGNORECASE):
            return text
    return WHO if _ABOUT_ME.match(asked) else None
