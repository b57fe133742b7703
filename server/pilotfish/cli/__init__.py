"""The command line, for people and scripts. `serve` starts without this package."""

from __future__ import annotations


def main() -> int:
    """Run a command; returns the exit code."""
    from pilotfish.cli.app import run

    return run()
