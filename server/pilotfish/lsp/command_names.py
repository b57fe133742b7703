"""The command names of `workspace/executeCommand`, used in capabilities, code actions and code lenses."""

from __future__ import annotations

PROMPT = "pilotfish.prompt"
CANCEL = "pilotfish.cancel"
SESSIONS = "pilotfish.sessions"
UNDO = "pilotfish.undo"
REDO = "pilotfish.redo"
TRANSCRIPT = "pilotfish.transcript"
APPROVE = "pilotfish.approve"
PREVIEW = "pilotfish.preview"

SHARED_COMMANDS = (APPROVE, PREVIEW)
"""for every client: what code lenses run"""

PLAIN_COMMANDS = (PROMPT, CANCEL, SESSIONS, UNDO, REDO, TRANSCRIPT)
"""advertised to plain clients only, because a client with a plugin has commands of these names of its own; the server
answers them whoever asks"""

OPEN_CHAT = "pilotfish.openChat"
"""run by clients with a chat, never by the server: its argument is a `ChatDraft`"""
