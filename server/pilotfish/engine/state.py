"""The state machine of a turn: user_input → assistant → tool_execution → response, and round again."""

from __future__ import annotations

from collections.abc import Callable

from pilotfish.core.records import AgentState

MOVES: dict[AgentState, frozenset[AgentState]] = {
    "user_input": frozenset({"assistant"}),
    "assistant": frozenset({"tool_execution", "response"}),
    "tool_execution": frozenset({"response"}),
    "response": frozenset({"assistant"}),
}


class ResponseState:
    """Where a turn stands. An illegal move is a bug, and says so."""

    def __init__(self, told: Callable[[AgentState], None], current: AgentState = "user_input") -> None:
        self.current: AgentState = current
        self._told = told

    def can_transition_to(self, state: AgentState) -> bool:
        return state in MOVES[self.current]

    def transition_to(self, state: AgentState) -> None:
        if not self.can_transition_to(state):
            raise RuntimeError(f"a turn cannot go from {self.current} to {state}")
        self.current = state
        self._told(state)
