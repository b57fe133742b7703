"""The command line: what a person or a script types. `serve` starts without it."""

from __future__ import annotations


def main() -> int:
    """Run a command; returns the exit code."""
    from pilotfish.cli.app import run

    return run()
