"""Every method and command that the server serves: one table each, which `register` registers with pygls.

A handler takes the server and the typed params. Handlers of our own methods that need the engine are methods of
`handlers.Handlers`, named here as text because the engine is imported after `initialize` is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from pilotfish import __version__
from pilotfish.errors import BadRequest, PilotfishError
from pilotfish.lsp import command_names, review
from pilotfish.lsp.connection.cancellation import unless
from pilotfish.lsp.connection.json_values import as_object, as_objects
from pilotfish.lsp.connection.protocol import ClientError, rpc_error
from pilotfish.lsp.editor.approvals import option_of
from pilotfish.lsp.editor.documents import LastPlace
from pilotfish.lsp.server import PilotfishServer
from pilotfish.protocol import wire
from pilotfish.protocol.wire import ERROR_CODES
from pilotfish.text.positions import TextPosition
from pilotfish.text.uris import path_of

log = logging.getLogger(__name__)

ASK_SECONDS = 5.0
STARTED = time.monotonic()

Serve = Callable[[PilotfishServer, Any], Awaitable[Any]]
"""serves a request"""
Notice = Callable[[PilotfishServer, Any], None]
"""handles a notification"""


class Feature(NamedTuple):
    """What serves a method, and the options it is advertised with."""

    handler: Serve | Notice
    options: Any = None


# -- our own methods ----------------------------------------------------------------------------------------------


def _read(name: str) -> Feature:
    """Served after every earlier prompt and change of its session."""

    async def serve(server: PilotfishServer, params: Any) -> Any:
        await server.order.before(getattr(params, "session_id", None))
        return await getattr((await server.loader.engine()).handlers, name)(params)

    return Feature(serve)


def _change(name: str) -> Feature:
    """Like `_read`; what arrives later waits until the change is made."""

    async def serve(server: PilotfishServer, params: Any) -> Any:
        async with server.order.change(getattr(params, "session_id", None)):
            return await getattr((await server.loader.engine()).handlers, name)(params)

    return Feature(serve)


def _configure(name: str) -> Feature:
    """Like `_change`, for a change of the user's configuration file, which is then read again."""

    async def serve(server: PilotfishServer, params: Any) -> Any:
        async with server.order.change(None):
            result = await getattr((await server.loader.engine()).handlers, name)(params)
            await server.loader.read_again()
            return result

    return Feature(serve)


def _at_once(name: str) -> Feature:
    """Served after the earlier prompts of its session; does not wait for settings or changes."""

    async def serve(server: PilotfishServer, params: Any) -> Any:
        await server.order.before(getattr(params, "session_id", None), changes=False)
        return await getattr((await server.loader.engine(at_once=True)).handlers, name)(params)

    return Feature(serve)


async def _prompt(server: PilotfishServer, params: wire.PromptParams) -> wire.PromptResult:
    return await _answered(lambda cancelled: _turn(server, params, cancelled))


def _edit(name: str) -> Feature:
    """An inline edit, which is a prompt in a session of its own."""

    async def serve(server: PilotfishServer, params: Any) -> wire.PromptResult:
        handlers = (await server.loader.engine()).handlers
        return await _answered(lambda cancelled: getattr(handlers, name)(params, cancelled))

    return Feature(serve)


async def _answered(
    start: Callable[[asyncio.Event], Coroutine[Any, Any, wire.PromptResult]],
) -> wire.PromptResult:
    """A cancelled prompt ends its turn and is answered with a result, unlike any other request."""
    cancelled = asyncio.Event()
    turn = asyncio.ensure_future(start(cancelled))
    while True:
        try:
            return await asyncio.shield(turn)
        except asyncio.CancelledError:
            if turn.done():
                raise
            cancelled.set()


async def _turn(server: PilotfishServer, params: wire.PromptParams, cancelled: asyncio.Event) -> wire.PromptResult:
    async with server.order.prompt(params.session_id) as in_line:
        engine = await unless(cancelled, server.loader.engine())
        if engine is None:
            return wire.PromptResult(turn_id="", stop_reason="cancelled", usage=wire.Usage())
        return await engine.handlers.prompt(params, cancelled, in_line)


async def _download(server: PilotfishServer, params: wire.ModelDownloadParams) -> wire.ModelDownloadResult:
    """Cancelling the request or the progress stops the download, which can be continued later."""
    engine = await server.loader.engine()
    cancelled = asyncio.Event()
    progress = server.progresses.start("Pilotfish: download a model", params.work_done_token, cancelled)
    try:
        uri = await unless(cancelled, engine.handlers.model_download(params, progress.report))
    except BaseException:
        await server.progresses.finish(progress, "stopped")
        raise
    await server.progresses.finish(progress, "stopped" if uri is None else "done")
    if uri is None:
        raise JsonRpcException("the download was cancelled", ERROR_CODES["cancelled"])
    return wire.ModelDownloadResult(uri=uri)


async def _status(server: PilotfishServer, _: wire.Empty) -> wire.Status:
    from pilotfish.config.managed_policy import managed_policy
    from pilotfish.lsp import presentation
    from pilotfish.telemetry.memory import resident_bytes

    loaded, failure = server.loader.now(), server.loader.failure()
    engine = loaded.engine if loaded else None
    status = engine.status() if engine else None
    unsaved = status.unsaved if status else None
    store = wire.StoreStatus(location=status.location, state="unsaved" if unsaved else "ok") if status else None
    return wire.Status(
        version=__version__,
        state="ready" if engine else "failed" if failure else "loading",
        uptime_ms=round((time.monotonic() - STARTED) * 1000),
        memory_bytes=resident_bytes() or 0,
        error=failure,
        model=engine.settings.model if engine else None,
        mode=engine.settings.mode if engine else None,
        trusted=server.world.trusted,
        store=store,
        mcp_servers=tuple(map(presentation.mcp_server, status.mcp_servers)) if status else (),
        sandbox=await engine.sandbox_words() if engine else None,
        running_turns=status.running_turns if status else 0,
        pending_approvals=len(server.approvals.open()),
        completions=loaded.handlers.completions.status() if loaded else None,
        problems=(*server.world.problems, *filter(None, (unsaved,))),
        managed=managed_policy().words(),
    )


def _trust_changed(server: PilotfishServer, params: wire.TrustParams) -> None:
    server.world.trusted = params.trusted
    server.loader.renew_world()


def _models_offered(server: PilotfishServer, params: wire.ModelsOfferedParams) -> None:
    server.world.models = params.models


def _model_chunk(server: PilotfishServer, params: wire.ModelChunkParams) -> None:
    if (loaded := server.loader.now()) is not None:
        loaded.language_models.received(params)


# -- LSP's methods ------------------------------------------------------------------------------------------------


def _initialize(server: PilotfishServer, _: types.InitializeParams) -> None:
    server.start()


def _initialized(server: PilotfishServer, _: types.InitializedParams) -> None:
    if server.client.watch_configuration:
        server.in_background(_watch_configuration(server))
    if server.client.configuration:
        server.loader.settle(_settings(server, None))
    server.loader.offer_completion(initialized=True)
    for problem in server.client.problems:
        server.window_log_message(types.LogMessageParams(types.MessageType.Warning, f"Pilotfish: {problem}"))


async def _watch_configuration(server: PilotfishServer) -> None:
    method = types.WORKSPACE_DID_CHANGE_CONFIGURATION
    registration = types.Registration("pilotfish-settings", method, {"section": "pilotfish"})
    with contextlib.suppress(ClientError, TimeoutError):
        params = types.RegistrationParams([registration])
        await server.protocol.request(types.CLIENT_REGISTER_CAPABILITY, params, ASK_SECONDS)


def _configuration_changed(server: PilotfishServer, params: types.DidChangeConfigurationParams) -> None:
    server.loader.settle(_settings(server, params.settings))


async def _settings(server: PilotfishServer, sent: Any) -> Mapping[str, Any] | None:
    """The client's settings, sent along or asked for; None if it has none."""
    settings = as_object((as_object(sent) or {}).get("pilotfish"))
    if settings is None and server.client.configuration:
        params = types.ConfigurationParams([types.ConfigurationItem(section="pilotfish")])
        with contextlib.suppress(ClientError, TimeoutError):
            answer = await server.protocol.request(types.WORKSPACE_CONFIGURATION, params, ASK_SECONDS)
            settings = (as_objects(answer) or [{}])[0]  # null if nothing is set any more
    return settings


def _folders_changed(server: PilotfishServer, params: types.DidChangeWorkspaceFoldersParams) -> None:
    removed = {path_of(folder.uri) for folder in params.event.removed}
    kept = [root for root in server.world.roots if root not in removed]
    added = [path_of(folder.uri) for folder in params.event.added]
    server.world.roots = [*kept, *(path for path in added if path is not None and path not in kept)]
    server.loader.renew_world()


def _files_changed(server: PilotfishServer, _: types.DidChangeWatchedFilesParams) -> None:
    server.loader.files_changed()


def _saved(_: PilotfishServer, __: types.DidSaveTextDocumentParams) -> None:
    """Registered so that the client sends saves; the text on disk is read when it is needed."""


async def _code_actions(server: PilotfishServer, params: types.CodeActionParams) -> list[types.CodeAction]:
    found = await server.actions.code_actions(params)
    if (engine := server.loader.now()) is not None:
        uri, only = params.text_document.uri, params.context.only
        found += await review.code_actions(engine.handlers, uri, params.range, only)
        found += engine.handlers.findings.code_actions(params)
    return found


async def _resolve_action(server: PilotfishServer, action: types.CodeAction) -> types.CodeAction:
    return await server.actions.resolve(action)


async def _hover(server: PilotfishServer, params: types.HoverParams) -> types.Hover | None:
    """The turn that wrote the line. Where the user hovers is also where the user looks, which a plain client cannot
    say otherwise."""
    at = TextPosition(params.position.line, params.position.character)
    server.documents.last_place = LastPlace(params.text_document.uri, at, at)
    engine = server.loader.now()
    return None if engine is None else await review.hover(engine.handlers, params.text_document.uri, at.line)


async def _lenses(server: PilotfishServer, params: types.CodeLensParams) -> list[types.CodeLens]:
    found = await server.actions.lenses(params)
    if (engine := server.loader.now()) is not None:
        found += await review.lenses(engine.handlers, params.text_document.uri)
    return found


async def _inline_completion(
    server: PilotfishServer, params: types.InlineCompletionParams
) -> types.InlineCompletionList | None:
    engine = server.loader.now()
    return None if engine is None else await engine.handlers.completions.complete(params)


async def _shutdown(server: PilotfishServer, _: Any) -> None:
    server.stopping = True
    await server.wind_down()


async def _exit(server: PilotfishServer, _: Any) -> None:
    await server.end(0 if server.stopping else 1)


FEATURES: Mapping[str, Feature] = {
    types.INITIALIZE: Feature(_initialize),
    types.INITIALIZED: Feature(_initialized),
    types.SHUTDOWN: Feature(_shutdown),
    types.EXIT: Feature(_exit),
    types.TEXT_DOCUMENT_DID_SAVE: Feature(_saved, types.SaveOptions(include_text=False)),
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: Feature(_configuration_changed),
    types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: Feature(_folders_changed),
    types.WORKSPACE_DID_CHANGE_WATCHED_FILES: Feature(_files_changed),
    types.TEXT_DOCUMENT_CODE_ACTION: Feature(
        _code_actions,
        types.CodeActionOptions(
            code_action_kinds=[
                types.CodeActionKind.QuickFix,
                types.CodeActionKind.RefactorRewrite,
                types.CodeActionKind.Refactor,
                types.CodeActionKind.Empty,
            ],
            resolve_provider=True,
        ),
    ),
    types.TEXT_DOCUMENT_HOVER: Feature(_hover),
    types.CODE_ACTION_RESOLVE: Feature(_resolve_action),
    # Without options it is not advertised: `InlineCompletions` registers it while a model is set for it.
    types.TEXT_DOCUMENT_INLINE_COMPLETION: Feature(_inline_completion),
    types.TEXT_DOCUMENT_CODE_LENS: Feature(_lenses, types.CodeLensOptions(resolve_provider=False)),
    "pilotfish/session/new": _read("session_new"),
    "pilotfish/session/list": _read("session_list"),
    "pilotfish/session/load": _read("session_load"),
    "pilotfish/session/rename": _change("session_rename"),
    "pilotfish/session/delete": _read("session_delete"),
    "pilotfish/session/fork": _read("session_fork"),
    "pilotfish/session/export": _read("session_export"),
    "pilotfish/session/configure": _change("session_configure"),
    "pilotfish/session/prompt": Feature(_prompt),
    "pilotfish/session/cancel": _at_once("session_cancel"),
    "pilotfish/session/retry": _read("session_retry"),
    "pilotfish/session/undo": _change("session_undo"),
    "pilotfish/session/restore": _change("session_restore"),
    "pilotfish/session/redo": _change("session_redo"),
    "pilotfish/background/start": _read("background_start"),
    "pilotfish/background/resume": _change("background_resume"),
    "pilotfish/background/takeOver": _change("background_take_over"),
    "pilotfish/background/branch": _change("background_branch"),
    "pilotfish/background/discard": _change("background_discard"),
    "pilotfish/review/list": _read("review_list"),
    "pilotfish/review/keep": _change("review_keep"),
    "pilotfish/review/undo": _change("review_undo"),
    "pilotfish/review/blame": _read("review_blame"),
    "pilotfish/edit/inline": _edit("edit_inline"),
    "pilotfish/edit/retry": _edit("edit_retry"),
    "pilotfish/edit/locate": _read("edit_locate"),
    "pilotfish/queue/list": _read("queue_list"),
    "pilotfish/queue/remove": _read("queue_remove"),
    "pilotfish/approval/list": _read("approval_list"),
    "pilotfish/approval/answer": _at_once("approval_answer"),
    "pilotfish/rule/list": _read("rule_list"),
    "pilotfish/rule/add": _change("rule_add"),
    "pilotfish/rule/remove": _change("rule_remove"),
    "pilotfish/secret/set": _change("secret_set"),
    "pilotfish/model/list": _read("model_list"),
    "pilotfish/model/download": Feature(_download),
    "pilotfish/endpoint/list": _read("endpoint_list"),
    "pilotfish/endpoint/add": _configure("endpoint_add"),
    "pilotfish/endpoint/remove": _configure("endpoint_remove"),
    "pilotfish/endpoint/test": _read("endpoint_test"),
    "pilotfish/mcp/list": _read("mcp_list"),
    "pilotfish/mcp/add": _change("mcp_add"),
    "pilotfish/mcp/remove": _change("mcp_remove"),
    "pilotfish/mcp/enable": _change("mcp_enable"),
    "pilotfish/mcp/restart": _change("mcp_restart"),
    "pilotfish/mcp/test": _read("mcp_test"),
    "pilotfish/model/offered": Feature(_models_offered),
    "pilotfish/model/chunk": Feature(_model_chunk),
    "pilotfish/command/list": _read("command_list"),
    "pilotfish/mention/complete": _read("mention_complete"),
    "pilotfish/mention/find": _read("mention_find"),
    "pilotfish/sample/create": _read("sample_create"),
    "pilotfish/status": Feature(_status),
    "pilotfish/trust/changed": Feature(_trust_changed),
}
"""method → what serves it"""


# -- commands -----------------------------------------------------------------------------------------------------


async def _approve(server: PilotfishServer, params: types.ExecuteCommandParams) -> Any:
    if not params.arguments:
        server.approvals.ask_again()
        return None
    return {"accepted": server.approvals.answer(option_of(list(params.arguments)), "command")}


async def _preview(server: PilotfishServer, params: types.ExecuteCommandParams) -> Any:
    argument = as_object(params.arguments[0]) if params.arguments else None
    if argument is None:
        raise BadRequest("arguments: {approvalId} is needed", field="arguments")
    return {"shown": await server.approvals.show_preview(str(argument.get("approvalId")))}


async def _choose(server: PilotfishServer, params: types.ExecuteCommandParams) -> Any:
    return {"accepted": server.choices.answer(list(params.arguments or ()))}


async def _plain(server: PilotfishServer, params: types.ExecuteCommandParams) -> Any:
    engine = await server.loader.engine()
    return await engine.generic_client.run(params.command, list(params.arguments or ()), params.work_done_token)


async def _review(server: PilotfishServer, params: types.ExecuteCommandParams) -> Any:
    engine = await server.loader.engine()
    return await review.decide(engine.handlers, params.command, list(params.arguments or ()))


async def _next_change(server: PilotfishServer, params: types.ExecuteCommandParams) -> Any:
    engine = await server.loader.engine()
    return await review.show_next(engine.handlers, server.protocol, list(params.arguments or ()))


async def _dismiss(server: PilotfishServer, params: types.ExecuteCommandParams) -> Any:
    engine = await server.loader.engine()
    return engine.handlers.findings.dismiss(list(params.arguments or ()))


COMMANDS: Mapping[str, Serve] = {
    command_names.DISMISS: _dismiss,
    command_names.REVIEW_KEEP: _review,
    command_names.REVIEW_UNDO: _review,
    command_names.REVIEW_NEXT: _next_change,
    command_names.EDIT_RETRY: _plain,
    command_names.APPROVE: _approve,
    command_names.PREVIEW: _preview,
    **dict.fromkeys(command_names.PLAIN_COMMANDS, _plain),
    command_names.CHOOSE: _choose,
}
"""command of `workspace/executeCommand` → what serves it"""


# -- registration -------------------------------------------------------------------------------------------------


def register(server: PilotfishServer) -> None:
    """Register every method and command with pygls."""
    for method, feature in FEATURES.items():
        server.feature(method, feature.options)(_guarded(server, method, feature.handler))
    for name, command in COMMANDS.items():
        server.command(name)(_guarded(server, name, command))


def _guarded(server: PilotfishServer, name: str, handler: Serve | Notice) -> Callable[..., Any]:
    """The handler for pygls. An error becomes an answer with a code and no traceback."""
    if not inspect.iscoroutinefunction(handler):
        return partial(handler, server)

    async def guarded(params: Any = None) -> Any:
        key = server.protocol.msg_id
        server.serving[key] = asyncio.current_task()
        try:
            return await cast("Awaitable[Any]", handler(server, params))
        except PilotfishError as error:
            raise rpc_error(error) from None
        except JsonRpcException:
            raise
        except Exception:
            log.exception("%s failed", name)
            raise JsonRpcException(f"{name} failed; the log says more", ERROR_CODES["internal"]) from None
        finally:
            server.serving.pop(key, None)

    return guarded
