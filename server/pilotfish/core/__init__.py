"""The conversation: values and rules. No I/O, no clock, no await, no vendor's types."""
