"""Asks the user through an ACP client: permissions, questions of the agent, trust in a folder, keys.

A question is a form (`elicitation/create`) where the client offers forms. Otherwise it is a permission request, whose
options all differ in kind, because clients map keys to kinds. What fits neither is said as text, and the next prompt
answers it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import acp
from acp import schema
from pilotfish.engine.frontend import ANSWERED_BY_PROMPT
from pilotfish.text.display_safe import display_safe

CHOICE_KINDS: tuple[schema.PermissionOptionKind, ...] = ("allow_once", "reject_once", "allow_always", "reject_always")
TRUST = "Trust this folder"
READ_ONLY = "Read only"
TRUST_WORDS = """{folder}

Pilotfish has no answer yet for this folder.
- Trust this folder: its instruction files, rules and slash commands are used, changes and commands are asked about as \
the mode says, and MCP servers start.
- Read only: files can be read. Nothing is changed and nothing is run.
The answer is kept in your own configuration, not in the folder."""


class Questions:
    def __init__(self, client: acp.Client, capabilities: schema.ClientCapabilities) -> None:
        self._client = client
        self._ids = itertools.count(1)
        offered = capabilities.elicitation
        self.has_forms = offered is not None and offered.form is not None

    async def permission(
        self, session_id: str, call: schema.ToolCallUpdate, options: Sequence[schema.PermissionOption]
    ) -> str | None:
        """The id of the option that the user chose, or None if the question was cancelled."""
        answer = await self._client.request_permission(session_id=session_id, tool_call=call, options=list(options))
        return answer.outcome.option_id if isinstance(answer.outcome, schema.AllowedOutcome) else None

    async def ask(self, session_id: str, question: str, options: Sequence[str]) -> str | None:
        """The answer of the user; None if there is none; ANSWERED_BY_PROMPT if the next prompt will answer."""
        question = display_safe(question)
        if self.has_forms:
            field = schema.ElicitationStringPropertySchema(
                type="string", title="Answer", enum=[display_safe(option) for option in options] or None
            )
            wanted = _schema(answer=field)
            mode = schema.ElicitationFormSessionMode(session_id=session_id, requested_schema=wanted)
            content = await self._form(question, mode)
            answer = None if content is None else str(content.get("answer", ""))
            offered = {display_safe(option): option for option in options}
            return None if answer is None else offered.get(answer, answer)
        if 1 < len(options) <= len(CHOICE_KINDS):
            return await self.choose(session_id, question, "", dict(zip(options, CHOICE_KINDS, strict=False)))
        listed = "".join(f"\n- {display_safe(option)}" for option in options)
        await self._client.session_update(session_id, acp.update_agent_message_text(f"\n\n{question}{listed}\n"))
        return ANSWERED_BY_PROMPT

    async def trust(self, session_id: str, folder: str) -> bool | None:
        """Whether the user trusts the folder; None if there is no answer."""
        folder = display_safe(folder)
        kinds: dict[str, schema.PermissionOptionKind] = {TRUST: "allow_always", READ_ONLY: "reject_always"}
        answer = await self.choose(session_id, f"Trust {folder}?", TRUST_WORDS.format(folder=folder), kinds)
        return None if answer is None else answer == TRUST

    async def key(self, request_id: int | str | None, label: str) -> str | None:
        """A key that the user types for this request of the client, if the client has forms."""
        if not self.has_forms or request_id is None:
            return None
        wanted = _schema(key=schema.ElicitationStringPropertySchema(type="string", title=f"{label} API key"))
        mode = schema.ElicitationFormRequestMode(request_id=request_id, requested_schema=wanted)
        content = await self._form(f"The API key of {label}. It is kept until the agent ends.", mode)
        return None if content is None else str(content.get("key", "")).strip() or None

    async def choose(
        self, session_id: str, title: str, words: str, options: Mapping[str, schema.PermissionOptionKind]
    ) -> str | None:
        """The option that the user chose, by a permission request."""
        call = schema.ToolCallUpdate(
            tool_call_id=f"question_{next(self._ids)}",
            title=title,
            kind="other",
            content=[acp.tool_content(acp.text_block(words))] if words else None,
        )
        offered = {str(index): option for index, option in enumerate(options)}
        chosen = await self.permission(
            session_id,
            call,
            [
                schema.PermissionOption(option_id=index, name=display_safe(option), kind=options[option])
                for index, option in offered.items()
            ],
        )
        return None if chosen is None else offered.get(chosen)

    async def _form(self, message: str, mode: schema.ElicitationMode) -> Mapping[str, Any] | None:
        answer = await self._client.create_elicitation(message, mode)
        return answer.content or {} if isinstance(answer, schema.AcceptElicitationResponse) else None


def _schema(**fields: schema.ElicitationStringPropertySchema) -> schema.ElicitationSchema:
    return schema.ElicitationSchema(type="object", properties={**fields}, required=[*fields])
