"""Maps exceptions of model requests to `TurnError`: a kind, a message and a remedy, without secrets or tracebacks."""

from __future__ import annotations

import contextlib
import logging
import re

import httpx2
from pydantic_ai import exceptions as library

from pilotfish.engine.model.failures.error_body import is_overflow, message_in, quoted, redact, wait_in
from pilotfish.errors import FailureKind, TurnError

__all__ = ["ToolsRefused", "failure", "redact"]

log = logging.getLogger(__name__)

_BAD_KEY = re.compile(
    r"(?:incorrect|invalid|wrong|missing|expired) (?:api|x-api|access|authentication|proxy)[-_ ](?:key|token)"
    r"|api key (?:not|is not|provided is) (?:valid|invalid)|no api key"
    r"|no connected db",  # LiteLLM without a database, to every key but its master key
    re.IGNORECASE,
)
_BAD_MODEL = re.compile(
    r"invalid model name|(?:not|isn't) a valid model|unknown model|no such model|not support(?:ed)? model"
    r"|model\b.{0,80}(?:not found|does not exist|is not available|not supported for)",
    re.IGNORECASE | re.DOTALL,
)
_NO_TOOLS = re.compile(
    r"not support (?:tool|function)|support tool use|enable-auto-tool-choice|tool[ -]call-parser"
    r"|tools? (?:is|are|use is) not supported|does not support .{0,20}tools|tools param requires",
    re.IGNORECASE,
)
_OF_EDITOR = {
    "editor_permission": (
        "The editor does not let Pilotfish use",
        "Send the prompt again and allow it when the editor asks, or choose another model.",
    ),
    "editor_not_found": (
        "The editor has no model",
        "Check that the extension that provides it is installed, active and signed in, or choose another model.",
    ),
}
"""types of errors of `editor/transport.py` that have no key and no address → words before the model, and a remedy"""


class ToolsRefused(TurnError):
    """The model cannot call tools, or its server is not set up for them."""


def failure(error: Exception) -> TurnError:
    """The `TurnError` for an exception of a model request. A `TurnError` is returned unchanged."""
    match error:
        case TurnError():
            return error
        case ExceptionGroup():
            return failure(error.exceptions[0])
        case library.ModelAPIError() if (said := _said(error)) is not None:
            return said
        case library.ModelRateLimitError():
            return _rate_limit(error)
        case library.ModelQuotaExceededError():
            return _turn_error(
                "credit",
                f"The provider says that your quota or credit is used up{_quote(error)}",
                "Top up the account with the provider, or switch to another model.",
            )
        case library.ModelContextWindowExceededError():
            return _context(error)
        case library.ModelAuthenticationError():
            return _authentication(error)
        case library.ModelNotFoundError():
            return _not_found(error)
        case library.ModelRequestRejectedError():
            return _rejected(error)
        case library.ModelUnavailableError():
            return _turn_error(
                "overloaded",
                f"The provider is overloaded{_quote(error)}",
                "Try again in a minute, or set a fallback model.",
                retry_after=_wait(error),
            )
        case library.ModelServerError():
            return _turn_error(
                "overloaded",
                f"The provider had an internal error{_status(error)}{_quote(error)}",
                "Try again. If the error persists, check the provider's status page.",
                retry_after=_wait(error),
            )
        case library.ModelRequestTimeout():
            return _stalled(error)
        case library.ModelTimeoutError():
            return _stalled(error) if error.phase in ("read", None) else _network(error)
        case library.ModelConnectionError():
            return _network(error)
        case library.ModelHTTPError():
            return _other_status(error)
        case library.ModelAPIError():
            return _unreadable(error)
        case library.ContentFilterError():
            return TurnError(
                "The provider's content filter stopped the answer.",
                remedy="Rephrase the request, or switch to another model.",
                kind="bad_request",
            )
        case library.UnexpectedModelBehavior():
            return TurnError(
                f"The model gave no usable answer: {quoted(error.message)}.",
                remedy="Send the prompt again, or switch to another model. If no answer ever arrives, check that"
                " baseUrl is the address of an OpenAI-compatible API.",
                retryable=True,
                kind="empty",
            )
        case library.UserError():
            return TurnError(
                f"The model is not configured correctly: {quoted(error.message)}",
                remedy="Check the settings `model` and `baseUrl`.",
                kind="configuration",
            )
        case httpx2.TimeoutException():
            return _stalled(error)
        case httpx2.RequestError() | ConnectionError():
            return _network(error)
        case _:
            log.error("unexpected exception in a model request", exc_info=error)
            return TurnError(
                "Something went wrong inside Pilotfish.",
                remedy="Send the prompt again. The log has the details.",
                kind="internal",
            )


def _said(error: library.ModelAPIError) -> TurnError | None:
    """The error by the provider's own words, where its status says less or something else. None if it does not."""
    if is_overflow(error.body, rate_limited=isinstance(error, library.ModelRateLimitError)):
        return _context(error)
    if isinstance(error, library.ModelRateLimitError | library.ModelQuotaExceededError | library.ModelConnectionError):
        return None
    if error.provider_error_type in _OF_EDITOR:
        words, remedy = _OF_EDITOR[error.provider_error_type]
        return TurnError(f"{words} {error.model_name}{_quote(error)}", remedy=remedy, kind="configuration")
    message = message_in(error.body)
    if _NO_TOOLS.search(message):
        return ToolsRefused(
            f"The model {error.model_name} cannot call tools{_quote(error)}",
            remedy="Switch to a model that can call tools. For a model on this machine, start its server with tool"
            " calls enabled (vLLM: --enable-auto-tool-choice, llama.cpp: --jinja).",
            kind="configuration",
        )
    if isinstance(error, library.ModelRequestRejectedError) and _BAD_KEY.search(message):
        return _authentication(error)
    if isinstance(error, library.ModelRequestRejectedError) and _BAD_MODEL.search(message):
        return _not_found(error)
    return None


def _rate_limit(error: library.ModelRateLimitError) -> TurnError:
    wait = _wait(error)
    soon = f"Try again in {_duration(wait)}" if wait is not None else "Wait a moment and try again"
    return _turn_error(
        "rate_limit",
        f"The provider's rate limit is reached{_quote(error)}",
        f"{soon}, or switch to another model.",
        retry_after=wait,
    )


def _context(error: library.ModelAPIError) -> TurnError:
    return TurnError(
        f"The conversation no longer fits the model's context window{_quote(error)}",
        remedy="Start a new session, fork from an earlier message, or switch to a model with a larger window.",
        kind="context",
    )


def _authentication(error: library.ModelRequestRejectedError) -> TurnError:
    if isinstance(error, library.ModelHTTPError) and error.status_code == 403:
        return TurnError(
            f"The provider does not let this key use {error.model_name}{_quote(error)}",
            remedy="Check the key's permissions with the provider, or switch to another model.",
            kind="authentication",
        )
    return TurnError(
        f"The provider did not accept the API key{_quote(error)}",
        remedy="Set a valid key in the provider's variable, or connect the provider in your editor if it offers that.",
        kind="authentication",
    )


def _not_found(error: library.ModelRequestRejectedError) -> TurnError:
    suggested = error.suggested_model_id if isinstance(error, library.ModelHTTPError) else None
    hint = f"Did you mean {suggested}? " if suggested else ""
    return TurnError(
        f"The provider does not know the model {error.model_name}{_quote(error)}",
        remedy=f"{hint}Choose another model, and check the setting baseUrl.",
        kind="configuration",
    )


def _rejected(error: library.ModelRequestRejectedError) -> TurnError:
    return TurnError(
        f"The provider refused the request{_quote(error)}",
        remedy="Switch to another model, or start a new session. The same request will be refused again.",
        kind="bad_request",
    )


def _stalled(error: Exception) -> TurnError:
    return _turn_error(
        "stalled",
        f"The provider{_place(error)} stopped sending data: the request timed out.",
        "Send the prompt again. For a slow model, raise the setting stallTimeout.",
    )


def _network(error: Exception) -> TurnError:
    refused = any(isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout) for cause in _causes(error))
    if refused or getattr(error, "phase", None) in ("connect", "pool"):
        return _turn_error(
            "network",
            f"The provider{_place(error)} could not be reached.",
            "Check the network, proxy and baseUrl. For a model on this machine, check that its server is running.",
        )
    return _turn_error(
        "network",
        f"The connection to the provider{_place(error)} broke in the middle of the answer.",
        "Send the prompt again.",
    )


def _place(error: Exception) -> str:
    """The host of a failed request, for the message: it is not a secret, and a wrong host is a frequent cause."""
    for cause in _causes(error):
        if isinstance(cause, httpx2.RequestError):
            with contextlib.suppress(RuntimeError):  # the exception has no request
                return f" at {cause.request.url.netloc.decode('ascii', 'replace')}"
    return ""


def _other_status(error: library.ModelHTTPError) -> TurnError:
    if error.status_code == 413:
        return _context(error)
    if error.status_code in (408, 409, 425):
        return _turn_error(
            "network",
            f"The provider asked for a retry{_status(error)}{_quote(error)}",
            "Send the prompt again.",
        )
    return TurnError(
        f"The provider refused the request{_status(error)}{_quote(error)}",
        remedy="Check the settings `model` and `baseUrl`, or switch to another model.",
        kind="bad_request",
    )


def _unreadable(error: library.ModelAPIError) -> TurnError:
    return _turn_error(
        "network",
        f"The provider's answer was incomplete or could not be parsed{_quote(error)}",
        "Send the prompt again. If the error persists, check that baseUrl is the address of an API, not of a web page.",
        retry_after=error.retry_after,
    )


def _turn_error(kind: FailureKind, message: str, remedy: str, *, retry_after: float | None = None) -> TurnError:
    """A retryable error, unless its kind is `credit`."""
    return TurnError(message, remedy=remedy, retryable=kind != "credit", kind=kind, retry_after=retry_after)


def _wait(error: library.ModelAPIError) -> float | None:
    """Seconds to wait, as the provider asks. The library ignores fractions in the header and times in the body."""
    if error.retry_after is not None:
        return error.retry_after
    if isinstance(error, library.ModelHTTPError) and error.headers is not None:
        try:
            return max(float(error.headers.get("retry-after", "")), 0.0)
        except ValueError:
            pass
    return wait_in(error.body)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{round(seconds / 3600)} h"


def _status(error: library.ModelAPIError) -> str:
    return f" ({error.status_code})" if isinstance(error, library.ModelHTTPError) else ""


def _quote(error: library.ModelAPIError) -> str:
    """`: “message of the provider”.`, or a full stop if there is no message."""
    message = quoted(message_in(error.body))
    return f": “{message}”." if message else "."


def _causes(error: BaseException | None) -> list[BaseException]:
    out: list[BaseException] = []
    while error is not None and error not in out:
        out.append(error)
        error = error.__cause__ or error.__context__
    return out
