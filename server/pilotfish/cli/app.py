"""The commands with their options and help texts. The other modules of this package implement them."""

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
    rich_markup_mode=None,  # rich shows a type for flags, which take no value
    context_settings={"help_option_names": ["-h", "--help"]},
)
sessions_app = typer.Typer(help="Look at, search, export, import and delete sessions.", no_args_is_help=True)
policy_app = typer.Typer(help="Check what the policy decides about a call.", no_args_is_help=True)
app.add_typer(sessions_app, name="sessions")
app.add_typer(policy_app, name="policy")

ModelOption = Annotated[str | None, typer.Option(help="The model, such as `openai-chat:gpt-…` or `ollama:…`.")]
ModeOption = Annotated[Mode | None, typer.Option(help="Which calls run without approval.")]
SessionOption = Annotated[str | None, typer.Option(help="Continue this session.")]
NewestOption = Annotated[bool, typer.Option("--continue", "-c", help="Continue the newest session of this folder.")]
TrustOption = Annotated[bool, typer.Option("--trust", help="Trust the folder for this run.")]
SessionArgument = Annotated[str, typer.Argument(help="The id of a session, or the start of it.")]
FolderOption = Annotated[
    Path, typer.Option("--folder", "-C", help="The workspace.", exists=True, file_okay=False, resolve_path=True)
]


def run() -> int:
    """Run the command line. An error that the user can act on is printed as one line, without a traceback."""
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
        typer.Argument(help="The task. Text piped in is appended; `-` waits for it."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print every update as one line of JSON.")] = False,
    model: ModelOption = None,
    mode: ModeOption = None,
    session: SessionOption = None,
    continue_: NewestOption = False,
    trust: TrustOption = False,
    background: Annotated[
        bool, typer.Option("--background", help="Run it in the background, in a worktree of the current commit.")
    ] = False,
    folder: FolderOption = Path(),
) -> int:
    """Run one prompt in this folder and print the result.

    Exit codes: 0 done, 1 failed, 2 wrong use, 3 iteration limit, 4 answer cut off, 5 budget, 6 refused, 130 cancelled.
    """
    from pilotfish.cli.headless import ChatOptions, run_once, whole_prompt

    text = whole_prompt(prompt or ())
    if not text:
        raise typer.BadParameter("give a prompt, or pipe one in", param_hint="PROMPT")
    options_ = ChatOptions(folder, model, mode, session, newest=continue_, json=json, trust=trust)
    if background:
        from pilotfish.cli.background import start

        if session is not None or continue_:
            raise typer.BadParameter("a task in the background has a session of its own", param_hint="--background")
        return _finish(start(options_, text))
    return _finish(run_once(options_, text))


@app.command(name="background", hidden=True)
def background_process(session: str) -> int:
    """Run the task of a session in this process. `pilotfish run --background` starts it."""
    from pilotfish.background.process import main

    return main(session)


@app.command()
def chat(
    model: ModelOption = None,
    mode: ModeOption = None,
    session: SessionOption = None,
    continue_: NewestOption = False,
    trust: TrustOption = False,
    folder: FolderOption = Path(),
) -> int:
    """Chat with the agent in the terminal. `pilotfish` alone does the same."""
    from pilotfish.cli.headless import ChatOptions, converse

    return _finish(converse(ChatOptions(folder, model, mode, session, newest=continue_, json=False, trust=trust)))


@app.command()
def demo(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve every question automatically.")] = False,
    wire: Annotated[bool, typer.Option("--wire", help="Print the JSON-RPC messages too.")] = False,
) -> int:
    """Run a real turn in a sample workspace. It needs no key, and no data leaves the machine."""
    from pilotfish.cli.demo import play

    return _finish(play(yes=yes or not sys.stdin.isatty(), wire=wire))


@app.command()
def sample(
    folder: Annotated[Path, typer.Argument(help="The new folder.")] = Path("pilotfish-sample"),
) -> int:
    """Write a sample project with a failing test."""
    from pilotfish.engine.model.guide.sample import PROMPT, sample_workspace

    try:
        sample_workspace(folder)
    except OSError as error:
        raise typer.BadParameter(f"{folder}: {error.strerror}", param_hint="FOLDER") from None
    typer.echo(f"Written to {folder}. Open it in your editor, or: cd {folder} && pilotfish chat")
    typer.echo(f"Then ask: {PROMPT}")
    return 0


@app.command()
def download(
    model: Annotated[str, typer.Argument(help="The model.")] = "qwen2.5-coder-1.5b",
) -> int:
    """Download a small model that runs on this machine."""
    from pilotfish.cli.download import download_model

    return _finish(download_model(model))


@app.command()
def doctor(
    provider: Annotated[
        str | None,
        typer.Option("--provider", "-p", help="Check this provider, endpoint or model with one small request."),
    ] = None,
) -> int:
    """Check what Pilotfish needs on this machine. Each problem is printed with a remedy."""
    if provider is not None:
        from pilotfish.cli.doctor_provider import examine_provider

        return _finish(examine_provider(provider))
    from pilotfish.cli.doctor import examine

    return _finish(examine())


@app.command()
def audit(
    session: Annotated[
        str | None,
        typer.Argument(help="The id of a session, or the start of it; `verify` to check a FILE; absent: all sessions."),
    ] = None,
    file: Annotated[Path | None, typer.Argument(help="An exported file, after `verify`.")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Check the hash chain.")] = False,
    export: Annotated[Path | None, typer.Option("--export", help="Write the trails to a JSON file.")] = None,
) -> int:
    """Print the decisions of a session, or check those of all."""
    from pilotfish.cli.audit import print_audit, verify_file

    if session == "verify" and file is not None:
        return _finish(verify_file(file))
    return _finish(print_audit(session, verify=verify, export=export))


@app.command(name="worker")
def run_worker(
    storage: Annotated[str | None, typer.Option(help="The database; absent: the setting `storage`.")] = None,
    clone: Annotated[
        list[Path] | None, typer.Option(help="A repository on this machine, for tasks of its `origin`.", exists=True)
    ] = None,
    remote: Annotated[
        list[str] | None, typer.Option(help="A pattern of URLs to fetch from: `https://git.example.org/*`.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Tasks at a time.")] = 2,
    lease: Annotated[
        float, typer.Option(min=1, help="Seconds without a sign of life after which others take over the tasks.")
    ] = 30,
    set_up: Annotated[bool, typer.Option("--set-up", help="Create the queue, as the owner of the tables.")] = False,
    per_user: Annotated[int, typer.Option(min=1, help="With --set-up: tasks of one user at a time.")] = 2,
) -> int:
    """Run background tasks that wait in PostgreSQL.

    Each runs in a worktree and with the role of its owner.
    """
    from pilotfish.background.process import WorkerLimits
    from pilotfish.cli import worker

    if set_up:
        return _finish(worker.set_up(storage, per_user))
    limits = WorkerLimits(clones=tuple(path.resolve() for path in clone or ()), remotes=tuple(remote or ()))
    return _finish(worker.work(storage, limits, concurrency, lease))


@app.command()
def usage(
    by: Annotated[str, typer.Option(help="What to group by: user, model, day, or several with commas.")] = (
        "user,model,day"
    ),
    days: Annotated[int, typer.Option(min=1, help="Count this many days, today included.")] = 30,
    form: Annotated[Literal["table", "csv", "json"], typer.Option("--format", help="The output format.")] = "table",
) -> int:
    """Print tokens, requests and cost by user, model and day."""
    from pilotfish.cli.usage import print_usage

    return _finish(print_usage(by, days, form))


@policy_app.command(name="check")
def policy_check() -> int:
    """Read calls as JSON lines and print the verdict on each. Nothing is run.

    A call is {"tool": "bash", "args": {"command": "git status"}}. It may also have mode, root, cwd, trusted and rules.
    """
    from pilotfish.engine.policy_check import main

    if sys.stdin.isatty():
        typer.echo(
            'Type one call per line, such as {"tool": "bash", "args": {"command": "git status"}}. Ctrl+D ends.',
            err=True,
        )
    return main(sys.stdin, sys.stdout)


@sessions_app.command(name="list")
def sessions_list(
    all_: Annotated[bool, typer.Option("--all", "-a", help="List the sessions of every folder.")] = False,
    limit: Annotated[int, typer.Option(min=1)] = 20,
    folder: FolderOption = Path(),
) -> int:
    """List the newest sessions of this folder."""
    from pilotfish.cli.sessions import print_list

    return _finish(print_list(None if all_ else folder, query=None, limit=limit))


@sessions_app.command(name="search")
def sessions_search(
    query: Annotated[str, typer.Argument(help="Words to find in titles and texts.")],
    limit: Annotated[int, typer.Option(min=1)] = 20,
) -> int:
    """Find sessions by words in their titles and texts."""
    from pilotfish.cli.sessions import print_list

    return _finish(print_list(None, query=query, limit=limit))


@sessions_app.command(name="show")
def sessions_show(session: SessionArgument) -> int:
    """Print the transcript of a session."""
    from pilotfish.cli.sessions import print_export

    return _finish(print_export(session, "markdown", rendered=True))


@sessions_app.command(name="export")
def sessions_export(
    session: SessionArgument,
    form: Annotated[Literal["markdown", "json"], typer.Option("--format", help="The output format.")] = "markdown",
) -> int:
    """Write a session to standard output."""
    from pilotfish.cli.sessions import print_export

    return _finish(print_export(session, form, rendered=False))


@sessions_app.command(name="import")
def sessions_import(
    file: Annotated[Path, typer.Argument(help="An exported JSON file.", exists=True, dir_okay=False)],
) -> int:
    """Import a session from a file."""
    from pilotfish.cli.sessions import import_text

    return _finish(import_text(file.read_text("utf-8", errors="replace")))


@sessions_app.command(name="share")
def sessions_share(
    session: SessionArgument,
    level: Annotated[
        Literal["private", "read", "continue"], typer.Option("--as", help="What the others may do with it.")
    ],
) -> int:
    """Let the other users of a PostgreSQL database read a session, or continue it too."""
    from pilotfish.cli.sessions import share

    return _finish(share(session, level))


@sessions_app.command(name="migrate")
def sessions_migrate(
    to: Annotated[str, typer.Option(help="A directory, or a URL such as postgresql://db.example.org/pilotfish.")],
) -> int:
    """Copy all sessions to another store and check every copy. Nothing is deleted."""
    from pilotfish.cli.sessions import migrate

    return _finish(migrate(to))


@sessions_app.command(name="apply")
def sessions_apply(
    session: SessionArgument,
    branch: Annotated[
        str | None, typer.Option(help="Make this branch of the changes instead; `-` for a name of its own.")
    ] = None,
) -> int:
    """Take over the changes of a task in the background: into the files, or as a branch.

    A file that you have changed in the same lines is left alone and named. Exit code 1 if there was one.
    """
    from pilotfish.cli.background import apply, make_branch

    return _finish(apply(session) if branch is None else make_branch(session, None if branch == "-" else branch))


@sessions_app.command(name="resume")
def sessions_resume(session: SessionArgument) -> int:
    """Continue a task in the background whose process is gone, or that failed or was stopped."""
    from pilotfish.cli.background import resume

    return _finish(resume(session))


@sessions_app.command(name="discard")
def sessions_discard(session: SessionArgument) -> int:
    """Drop the worktree and the changes of a task in the background. The conversation stays."""
    from pilotfish.cli.background import discard

    return _finish(discard(session))


@sessions_app.command(name="delete")
def sessions_delete(
    session: SessionArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> int:
    """Delete a session permanently."""
    from pilotfish.cli.sessions import delete

    return _finish(delete(session, sure=yes))


def _finish(work: Coroutine[Any, Any, int]) -> int:
    return asyncio.run(work)
