"""Checks what an answer claims about tests, builds and files against the calls of the session.

Hides: where the evidence is. Promises: every checked claim is recorded; the model is told of unsupported ones once in a
turn, and only if its limits leave room for the answer.
"""

from __future__ import annotations

import re

from pilotfish.conversation.claims import Changed, CheckedClaim, Evidence, Run, check_answer, claims_in, is_test_run
from pilotfish.conversation.messages import CallStatus, CanonicalToolCall, UserPromptPart, as_news
from pilotfish.conversation.records import ClaimRecord, FileChangeRecord
from pilotfish.engine.turn.context import TurnContext
from pilotfish.policy.shell.analysis import study
from pilotfish.policy.shell.effects import Effect
from pilotfish.text.uris import path_of
from pilotfish.tools import BY_NAME

PREPARING = frozenset({"mkdir", "cp", "mv", "rm", "touch", "chmod", "ln", "echo", "printf", "cd", "sleep", "tee"})
"""commands that are neither tests nor builds"""
WRITES_IN_TESTS = re.compile(r"update|--fix|-u\b|write|regen|record", re.IGNORECASE)


class ClaimCheck:
    """The check of one turn's answers."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._told = False

    def check(self, answer: str, iteration: int) -> str:
        """Record the claims of an answer. Returns what the model must be told, or an empty text."""
        turn = self._turn
        if not turn.settings.verify_claims or turn.ports.imported:
            return ""
        if next(claims_in(answer, summary=True), None) is None:
            return ""
        checked = check_answer(answer, self._evidence())
        for claim in checked:
            turn.ports.emit(
                ClaimRecord(
                    turn_id=turn.turn_id,
                    text=claim.text,
                    verdict=claim.verdict,
                    timestamp=turn.ports.clock(),
                    evidence=claim.evidence,
                )
            )
        unsupported = [claim for claim in checked if claim.verdict == "unsupported"]
        limit = turn.settings.max_iterations
        has_room = (limit is None or iteration < limit) and turn.meter.has_room()
        if not unsupported or self._told or not has_room or turn.stop.asked:
            return ""
        self._told = True
        return as_news(_words(unsupported))

    def _evidence(self) -> Evidence:
        turn = self._turn
        places = {call.id: at for at, call in enumerate(turn.registry)}
        changes = [record for record in turn.ports.file_records if isinstance(record, FileChangeRecord)]
        foreign = any(call.name not in BY_NAME and call.status is CallStatus.COMPLETED for call in turn.registry)
        unfinished = any(
            call.name == "bash" and call.status is CallStatus.CANCELLED and call.started_at is not None
            for call in turn.registry
        )
        said = self._said_by_user()
        return Evidence(
            runs=[run for at, call in enumerate(turn.registry) if (run := _run(call, at)) is not None],
            changes=[
                Changed(path=path.as_posix(), at=places.get(change.call_id, -1))
                for change in changes
                for uri in (change.uri, change.old_uri)
                if uri is not None and (path := path_of(uri)) is not None
            ],
            changed_now=any(change.turn_id == turn.turn_id for change in changes),
            tested_elsewhere=foreign or bool(said & {"tests", "build"}),
            changed_elsewhere=foreign or unfinished or "file" in said,
            diagnosed=any(call.name in ("diagnostics", "quick_fix") for call in turn.registry),
        )

    def _said_by_user(self) -> set[str]:
        """What the user has claimed: the answer may repeat it."""
        prompts = (
            part.text
            for message in self._turn.ports.history
            for part in message.parts
            if isinstance(part, UserPromptPart)
        )
        return {claim.subject for prompt in prompts for claim in claims_in(prompt, summary=False)}


def _run(call: CanonicalToolCall, at: int) -> Run | None:
    """The command that a call ran to its end."""
    if call.status not in (CallStatus.COMPLETED, CallStatus.FAILED) or call.result is None:
        return None
    if call.name == "bash_output":
        return Run(command="", succeeded=True, output=call.result.text, at=at)
    command = call.args.get("command")
    if call.name != "bash" or not isinstance(command, str):
        return None
    seen = study(command)
    reads = seen.effect is Effect.READS
    tests = seen.effect is Effect.RUNS and is_test_run(command) and not WRITES_IN_TESTS.search(command)
    prepares = bool(seen.found) and all(words and words[0] in PREPARING for words in seen.found)
    return Run(
        command=command,
        succeeded=call.status is CallStatus.COMPLETED,
        output=call.result.text,
        at=at,
        harmless=reads or prepares,
        reads=reads or tests,
    )


def _words(claims: list[CheckedClaim]) -> str:
    lines = "\n".join(f"- “{claim.text}”: {claim.evidence}" for claim in claims)
    return (
        f"A check of your last answer found statements that no call of this session shows:\n{lines}\n"
        "The user sees them marked as not verified. If you can, do it now and say the result; "
        "if not, correct the statement in one sentence. Do not repeat the rest of the answer."
    )
