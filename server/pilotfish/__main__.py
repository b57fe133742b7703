"""`pilotfish`: the command line. `serve` goes past it, because an editor waits for its start."""

import sys


def main() -> int:
    """Run the command; returns the exit code."""
    arguments = sys.argv[1:]
    # Editors add `--stdio` and `--clientProcessId` of their own accord.
    if arguments[:1] == ["serve"] and not {"-h", "--help"}.intersection(arguments):
        from pilotfish.lsp.start import serve

        return serve()
    from pilotfish.cli import main as cli

    return cli()


if __name__ == "__main__":
    sys.exit(main())
