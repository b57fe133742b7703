"""The commands, their options and their help. What they do stands in the modules beside this one."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pilotfish import __version__
from pilotfish.errors import PilotfishError

Mode = Literal["ask", "plan", "edit", "auto"]

app = typer.Typer(
    name="pilotfish",
    help="An AI coding agent that lives where a language server lives.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its boxes name the type of a flag, as if a flag took a value
    context_settings={"help_option_names": ["-h", "--help"]},
)
sessions_app = typer.Typer(help="Look at, search, export, import and delete sessions.", no_args_is_help=True)
policy_app = typer.Typer(help="Ask the policy why something would be asked.", no_args_is_help=True)
app.add_typer(sessions_app, name="sessions")
app.add_typer(policy_app, name="policy")

ModelOption = Annotated[str | None, typer.Option(help="A model, as `openai-chat:gpt-…` or `ollama:…`.")]
ModeOption = Annotated[Mode | None, typer.Option(help="How much runs without a question.")]
SessionOption = Annotated[str | None, typer.Option(help="Go on in this session.")]
NewestOption = Annotated[bool, typer.Option("--continue", "-c", help="Go on in the newest session here.")]
TrustOption = Annotated[bool, typer.Option("--trust", help="Trust the folder, this time.")]
SessionArgument = Annotated[str, typer.Argument(help="A session's id, or its beginning.")]
FolderOption = Annotated[
    Path, typer.Option("--folder", "-C", help="The workspace.", exists=True, file_okay=False, resolve_path=True)
]


def run() -> int:
    """Run the command line. Errors that a person can act on are one line, not a traceback."""
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  # closed by `<&-`
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115  # the process's own, and its descriptor 0
    try:
        returned: object = app(standalone_mode=False, prog_name="pilotfish")
    except typer.Exit as done:
        return done.exit_code
    except typer.Abort:
        return 130
    except PilotfishError as error:
        remedy = getattr(error, "remedy", "")
        sys.stderr.write(f"pilotfish: {error}{f' {remedy}' if remedy else ''}\n")
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if (show := getattr(error, "show", None)) is not None:  # click's own errors: bad options, missing arguments
            show()
            return int(getattr(error, "exit_code", 2))
        raise
    return returned if isinstance(returned, int) else 0


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pilotfish {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """An AI coding agent that lives where a language server lives."""
    del version
    if context.invoked_subcommand is not None:
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)
    raise typer.Exit(chat(folder=Path.cwd()))


@app.command(name="serve", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def serve_editor() -> int:
    """Serve an editor over stdio, as a language server."""
    from pilotfish.lsp.start import serve

    return serve()


@app.command()
def acp() -> int:
    """Serve an editor that speaks ACP, the Agent Client Protocol."""
    from pilotfish.acp.server import main

    return main()


@app.command(name="run")
def run_prompt(
    prompt: Annotated[
        list[str] | None,
        typer.Argument(help="What to do. What is piped in is added to it; `-` waits for it."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print every update as one line of JSON.")] = False,
    model: ModelOption = None,
    mode: ModeOption = None,
    session: SessionOption = None,
    continue_: NewestOption = False,
    trust: TrustOption = False,
    folder: FolderOption = Path(),
) -> int:
    """Run one prompt in this folder and print what happens.

    Exit codes: 0 done, 1 failed, 2 wrong use, 3 iteration limit, 4 answer cut off, 5 budget, 6 refused, 130 cancelled.
    """
    from pilotfish.cli.headless import Wish, run_once, whole_prompt

    text = whole_prompt(prompt or ())
    if not text:
        raise typer.BadParameter("say what to do, or send it on standard input", param_hint="PROMPT")
    wish = Wish(folder, model, mode, session, newest=continue_, json=json, trust=trust)
    return _finish(run_once(wish, text))


@app.command()
def chat(
    model: ModelOption = None,
    mode: ModeOption = None,
    session: SessionOption = None,
    continue_: NewestOption = False,
    trust: TrustOption = False,
    folder: FolderOption = Path(),
) -> int:
    """Talk to the agent in the terminal."""
    from pilotfish.cli.headless import Wish, converse

    return _finish(converse(Wish(folder, model, mode, session, newest=continue_, json=False, trust=trust)))


@app.command()
def demo(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Answer the questions by itself.")] = False,
    wire: Annotated[bool, typer.Option("--wire", help="Print the JSON-RPC messages too.")] = False,
) -> int:
    """Play a real turn on a sample workspace. No key is needed, and nothing leaves the machine."""
    from pilotfish.cli.demo import play

    return _finish(play(yes=yes or not sys.stdin.isatty(), wire=wire))


@app.command()
def doctor() -> int:
    """Check what Pilotfish needs on this machine. There is a remedy for each thing that is missing."""
    from pilotfish.cli.doctor import examine

    return _finish(examine())


@app.command()
def audit(
    session: SessionArgument,
    verify: Annotated[bool, typer.Option("--verify", help="Check the hash chain.")] = False,
) -> int:
    """Print every decision that was taken in a session. By whom, for what, and when."""
    from pilotfish.cli.sessions import print_audit

    return _finish(print_audit(session, verify=verify))


@policy_app.command(name="check")
def policy_check() -> int:
    """Read calls as JSON lines, run nothing, print the verdict on each.

    A call is {"tool": "bash", "args": {"command": "git status"}}. It may also have mode, root, cwd, trusted and rules.
    """
    from pilotfish.engine.policy_check import main

    if sys.stdin.isatty():
        typer.echo(
            'One call a line, such as {"tool": "bash", "args": {"command": "git status"}}; Ctrl-D ends.', err=True
        )
    return main(sys.stdin, sys.stdout)


@sessions_app.command(name="list")
def sessions_list(
    all_: Annotated[bool, typer.Option("--all", "-a", help="Of every folder.")] = False,
    limit: Annotated[int, typer.Option(min=1)] = 20,
    folder: FolderOption = Path(),
) -> int:
    """The newest sessions of this folder."""
    from pilotfish.cli.sessions import print_list

    return _finish(print_list(None if all_ else folder, query=None, limit=limit))


@sessions_app.command(name="search")
def sessions_search(
    query: Annotated[str, typer.Argument(help="Words in titles and texts.")],
    limit: Annotated[int, typer.Option(min=1)] = 20,
) -> int:
    """Sessions that speak of something."""
    from pilotfish.cli.sessions import print_list

    return _finish(print_list(None, query=query, limit=limit))


@sessions_app.command(name="show")
def sessions_show(session: SessionArgument) -> int:
    """The transcript of a session."""
    from pilotfish.cli.sessions import print_export

    return _finish(print_export(session, "markdown", rendered=True))


@sessions_app.command(name="export")
def sessions_export(
    session: SessionArgument,
    form: Annotated[Literal["markdown", "json"], typer.Option("--format", help="What to write.")] = "markdown",
) -> int:
    """Write a session to standard output."""
    from pilotfish.cli.sessions import print_export

    return _finish(print_export(session, form, rendered=False))


@sessions_app.command(name="import")
def sessions_import(
    file: Annotated[Path, typer.Argument(help="An exported JSON file.", exists=True, dir_okay=False)],
) -> int:
    """Take a session in from a file."""
    from pilotfish.cli.sessions import import_text

    return _finish(import_text(file.read_text("utf-8", errors="replace")))


@sessions_app.command(name="delete")
def sessions_delete(
    session: SessionArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> int:
    """Delete a session for good."""
    from pilotfish.cli.sessions import delete

    return _finish(delete(session, sure=yes))


def _finish(work: Coroutine[Any, Any, int]) -> int:
    return asyncio.run(work)
