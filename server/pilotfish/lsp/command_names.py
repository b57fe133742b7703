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
CHOOSE = "pilotfish.choose"

REVIEW_KEEP = "pilotfish.review.keep"
REVIEW_UNDO = "pilotfish.review.undo"
REVIEW_NEXT = "pilotfish.review.next"

EDIT = "pilotfish.edit"
EDIT_RETRY = "pilotfish.edit.retry"

DISMISS = "pilotfish.findings.dismiss"

SHARED_COMMANDS = (APPROVE, PREVIEW, REVIEW_KEEP, REVIEW_UNDO, REVIEW_NEXT, EDIT_RETRY, DISMISS)
"""for every client: what code lenses and code actions run"""

PLAIN_COMMANDS = (PROMPT, EDIT, CANCEL, SESSIONS, UNDO, REDO, TRANSCRIPT, CHOOSE)
"""advertised to plain clients only, because a client with a plugin has commands of these names of its own; the server
answers them whoever asks"""

OPEN_CHAT = "pilotfish.openChat"
"""run by clients with a chat, never by the server: its argument is a `ChatDraft`"""
