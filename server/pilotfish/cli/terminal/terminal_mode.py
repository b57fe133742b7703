"""The mode of the terminal on standard input, and what was typed into it. Windows has no termios, but a console."""

from __future__ import annotations

import sys

if sys.platform != "win32":
    import termios


def drop_typed() -> None:
    """Drop what was typed and not read yet. Raises an error if standard input is not a terminal."""
    if sys.platform == "win32":
        import msvcrt

        while msvcrt.kbhit():
            msvcrt.getwch()
    else:
        termios.tcflush(0, termios.TCIFLUSH)


class TerminalMode:
    """The mode that the terminal has now, to put it back. On Windows prompt_toolkit puts it back itself."""

    def __init__(self) -> None:
        if sys.platform != "win32":
            self._saved = termios.tcgetattr(0)

    def restore(self) -> None:
        if sys.platform != "win32":
            termios.tcsetattr(0, termios.TCSANOW, self._saved)
