"""What runs when the model believes that it is done: the user's check command, and the hooks of the event `Stop`.

Promises: the model is told only if the limits of the turn leave room for its answer; the check command runs once in a
turn that changed files, as a call under the policy of the session; a hook can keep a turn going at most `MAX_BLOCKS`
times.
"""

from __future__ import annotations

from pilotfish.conversation.messages import as_news
from pilotfish.engine.turn.calls.tool_runner import ToolRunner
from pilotfish.engine.turn.context import TurnContext

MAX_BLOCKS = 3


class EndChecks:
    """The checks at the end of one turn."""

    def __init__(self, turn: TurnContext, calls: ToolRunner) -> None:
        self._turn = turn
        self._calls = calls
        self._blocks = 0
        self._has_checked = False

    async def check(self, answer: str, iteration: int) -> str:
        """Returns what the model must be told before the turn may end, or an empty text."""
        turn = self._turn
        limit = turn.settings.max_iterations
        if turn.stop.asked or not turn.meter.has_room() or (limit is not None and iteration >= limit):
            return ""
        return await self._check_command() or await self._stop_hooks(answer)

    async def _check_command(self) -> str:
        """Run the check command if the turn has changed files. Returns its output if it failed."""
        turn, command = self._turn, self._turn.settings.check_command
        if command is None or self._has_checked or not turn.recording.changed_files:
            return ""
        self._has_checked = True
        outcome = await self._calls.execute(turn.ports.new_id("call"), "bash", {"command": command})
        if outcome.outcome != "failed":
            return ""
        return as_news(
            f"After your changes the user's check `{command}` failed:\n{outcome.text}\n"
            "Fix what your changes broke, or say that something else is the cause. It does not run again by itself."
        )

    async def _stop_hooks(self, answer: str) -> str:
        turn = self._turn
        fields = {
            "last_assistant_message": answer,
            "changed_files": list(turn.recording.changed_files),
            "stop_hook_active": self._blocks > 0,
        }
        hooks = await turn.ports.run_hooks("Stop", "", fields)
        if hooks.block is None or self._blocks >= MAX_BLOCKS:
            return ""
        self._blocks += 1
        return as_news(f"A hook does not let you end yet: {hooks.block}")
