"""Commands: processes, their output, and the sandbox they run in."""
