"""What the parts of one turn share: services of the session, settings, usage, records, cancellation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pydantic_ai.models import Model

from pilotfish.config.settings import Settings
from pilotfish.engine.turn.cancellation import Cancellation
from pilotfish.engine.turn.recording import Recording
from pilotfish.engine.turn.response_stream import ResponseStream
from pilotfish.engine.turn.services import Ports
from pilotfish.engine.turn.steering import Steering
from pilotfish.engine.turn.usage import Meter
from pilotfish.policy.taint import OutsideText, attached_texts, outside_texts
from pilotfish.workspace.workspace import Workspace


@dataclass(slots=True)
class RequestContext:
    """The id and the metrics of one turn in the log."""

    request_id: str
    metrics: dict[str, float] = field(default_factory=dict[str, float])


class TurnContext:
    """The state of one turn. The orchestrator creates it; the loop, the tool runner and the approvals use it."""

    def __init__(
        self, *, ports: Ports, turn_id: str, settings: Settings, workspace: Workspace, model: Callable[[], Model]
    ) -> None:
        self.ports = ports
        self.turn_id = turn_id
        self.settings = settings
        self.workspace = workspace
        self.model = model
        self.registry = ports.registry
        self.outside: tuple[OutsideText, ...] = ()
        """the texts from outside the workspace that the model had been given when it made its calls"""
        self.request = RequestContext(turn_id[-8:])
        self.stop = Cancellation(ports.clock)
        self.steering = Steering()
        self.stream = ResponseStream(ports, turn_id)
        self.recording = Recording(ports, turn_id, settings, self.stream, self.steering)
        self.meter = Meter(
            turn_id, ports.emit, context=ports.context, budget=settings.budget, calls=self.stream.own_calls
        )

    def note_outside_texts(self) -> None:
        """Called before each request: the calls of its response may follow what it sends."""
        self.outside = (
            *outside_texts(self.registry, self.stream.own_calls, imported=self.ports.imported),
            *attached_texts(self.ports.prompts, self.turn_id),
        )

    async def ask_user(self, question: str, options: Sequence[str]) -> str | None:
        return await self.ports.ask_user(self.turn_id, question, options)
