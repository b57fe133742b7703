"""Questions with buttons for clients without a plugin.

A choice is shown as a message with buttons. While it waits, it is also a code action for each button, because some
editors (Helix) cannot show such a message and others (ALE) never answer it. The first answer wins.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lsprotocol import types

from pilotfish.errors import BadRequest, UnknownCall
from pilotfish.lsp import command_names
from pilotfish.lsp.connection.json_values import as_object
from pilotfish.lsp.connection.protocol import ClientError, Connection
from pilotfish.protocol.wire import ERROR_CODES

TITLE_CHARS = 60
"""of the question in the title of a code action"""


@dataclass(frozen=True, slots=True)
class _Choice:
    message: str
    options: Sequence[str]
    answer: asyncio.Future[str | None]


class Choices:
    """Every open choice."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._open: dict[str, _Choice] = {}
        self._ids = itertools.count(1)

    async def choose(self, message: str, options: Sequence[str]) -> str | None:
        """Ask the user for one of the options; None if the message was closed. Raises ClientError if the client failed
        to show it for another reason than that it knows no such messages."""
        choice_id = f"choice-{next(self._ids)}"
        choice = _Choice(message, options, asyncio.get_running_loop().create_future())
        self._open[choice_id] = choice
        shown = asyncio.ensure_future(self._show(choice))
        try:
            await asyncio.wait((shown, choice.answer), return_when=asyncio.FIRST_COMPLETED)
            return choice.answer.result() if choice.answer.done() else await shown
        finally:
            del self._open[choice_id]
            shown.cancel()  # which closes the client's message

    def answer(self, arguments: Sequence[Any]) -> bool:
        """`pilotfish.choose`: the argument is `{choiceId, option}`. Returns False if it was answered already."""
        argument = as_object(arguments[0]) if arguments else None
        if argument is None:
            raise BadRequest("arguments: {choiceId, option} is needed", field="arguments")
        choice = self._open.get(str(argument.get("choiceId")))
        if choice is None:
            raise UnknownCall("This question is no longer open; it may have been answered already.")
        option = str(argument.get("option"))
        if option not in choice.options:
            raise BadRequest(f"option: {option!r} is not offered here", field="option")
        if choice.answer.done():
            return False
        choice.answer.set_result(option)
        return True

    def code_actions(self) -> list[types.CodeAction]:
        """The options of the open choices, oldest choice first."""
        found: list[types.CodeAction] = []
        for choice_id, choice in self._open.items():
            for option in choice.options:
                question = choice.message.split("\n", 1)[0]
                words = question if len(question) <= TITLE_CHARS else question[: TITLE_CHARS - 1] + "…"
                argument = {"choiceId": choice_id, "option": option}
                command = types.Command(option, command_names.CHOOSE, arguments=[argument])
                found.append(types.CodeAction(f"{option} ({words})", types.CodeActionKind.QuickFix, command=command))
        return found

    async def _show(self, choice: _Choice) -> str | None:
        try:
            return await self._connection.choose(choice.message, choice.options)
        except ClientError as error:
            if error.code != ERROR_CODES["method_not_found"]:
                raise
        self._connection.message(types.MessageType.Warning, f"Answer with a code action: {choice.message}")
        return await choice.answer
