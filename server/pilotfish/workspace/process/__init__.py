"""Commands: processes, their output, and what they leave running."""
