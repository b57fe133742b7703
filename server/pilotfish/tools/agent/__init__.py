"""Tools of the agent itself: its plan, questions, subagents, skills and memory."""
