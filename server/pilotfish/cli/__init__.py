"""The command line: what a person or a script types. `serve` never comes here, so that an editor starts at once."""

from __future__ import annotations


def main() -> int:
    """Run a command; the exit code."""
    from pilotfish import compiled

    compiled.install()
    from pilotfish.cli.app import run

    try:
        return run()
    finally:
        compiled.uninstall()  # what a command compiles may be somebody's words: only loading is kept, by the server
