"""`pilotfish`: an editor's `serve` reaches the boot path with nothing else imported; the rest is the command line."""

import sys


def main() -> int:
    """Run what was asked for; the exit code."""
    arguments = sys.argv[1:]
    # Editors add `--stdio` and `--clientProcessId` of their own accord.
    if arguments[:1] == ["serve"] and not {"-h", "--help"}.intersection(arguments):
        from pilotfish.lsp.boot import main as serve

        return serve()
    from pilotfish.cli import main as cli

    return cli()


if __name__ == "__main__":
    sys.exit(main())
