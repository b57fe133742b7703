"""One turn: orchestrator, loop, tool calls, approvals, streaming, usage."""
