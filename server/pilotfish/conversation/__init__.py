"""Messages, tool calls, records and transcripts as values. No I/O, no clock, no await, no vendor types."""
