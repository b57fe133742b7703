"""What an error of a provider means: overflow, waits, keys, models, tools, and the provider's own words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import exceptions as library

from pilotfish.engine.model.failures.error_body import message_in, wait_in
from pilotfish.engine.model.failures.errors import failure
from pilotfish.engine.model.failures.retry import PATIENCE, Retries
from pilotfish.errors import FailureKind, TurnError

STATUS: dict[int, Any] = {
    400: library.ModelRequestRejectedError,
    404: library.ModelNotFoundError,
    422: library.ModelRequestRejectedError,
    429: library.ModelRateLimitError,
    500: library.ModelServerError,
    503: library.ModelUnavailableError,
}


def refused(status: int, body: object, **headers: str) -> TurnError:
    return failure(
        library.ModelHTTPError.for_category(
            STATUS.get(status), status_code=status, model_name="m", body=body, headers=headers or None
        )
    )


OVERFLOWS = {
    "llama.cpp": {
        "code": 400,
        "message": "the request exceeds the available context size, try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 9000,
        "n_ctx": 8192,
    },
    "llama.cpp, newer": {"message": "request (9000 tokens) exceeds the available context size (8192 tokens)"},
    "llama.cpp, while generating": {"message": "Context size has been exceeded."},
    "Ollama": {"message": "prompt too long; exceeded max context length by 4 tokens"},
    "Ollama, older": {"message": "input length exceeds maximum context length"},
    "LM Studio": {
        "message": "The number of tokens to keep from the initial prompt is greater than the context length."
    },
    "LM Studio, loaded": {
        "message": "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with"
        " context length of only 4096 tokens, which is not enough."
    },
    "LiteLLM": {
        "message": "litellm.ContextWindowExceededError: litellm.BadRequestError: AnthropicError - too long",
        "type": None,
        "code": "400",
    },
    "Perplexity": {"message": "Input is too long: 140000 tokens, limit 127072", "type": "bad_request"},
    "vLLM": {"message": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens."},
    "vLLM, newer": {"message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096."},
    "SGLang": {"message": "The input (5000 tokens) is longer than the model's context length (4096 tokens)."},
    "OpenAI Responses": {"message": "Your input exceeds the context window of this model.", "type": "invalid_request"},
    "Azure": {"message": "Input tokens exceed the configured limit of 272000 tokens."},
    "Anthropic": {"error": {"message": "prompt is too long: 205000 tokens > 200000 maximum"}},
    "Anthropic, with max_tokens": {
        "error": {"message": "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"}
    },
    "Bedrock": {"message": "Input is too long for requested model."},
    "Google": {"error": {"message": "The input token count (1050000) exceeds the maximum number of tokens allowed."}},
    "xAI": {"error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."},
    "Groq": {"message": "Please reduce the length of the messages or completion."},
    "Mistral": {"message": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"},
    "DeepSeek": {"message": "This model's maximum context length is 65536 tokens."},
    "Kimi": {"message": "Invalid request: Your request exceeded model token limit: 131072 (requested: 140000)"},
    "MiniMax": {"message": "invalid params, context window exceeds limit (2013)"},
    "Alibaba": {"message": "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]"},
    "Z.ai": {"message": "Prompt exceeds max length", "code": "1261"},
    "Together": {"message": "`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens"},
    "Copilot": {"message": "prompt token count of 140000 exceeds the limit of 128000"},
    "GitHub Models": {"message": "Request body too large for gpt-4o model. Max size: 8000 tokens."},
    "OpenRouter": {
        "message": "Provider returned error",
        "code": 400,
        "metadata": {"raw": '{"message":"prompt is too long: 205000 tokens > 200000 maximum"}', "provider_name": "X"},
    },
}


@pytest.mark.parametrize("server", OVERFLOWS)
@pytest.mark.parametrize("status", [400, 500])
def test_an_overflow_of_the_context_is_recognised_whoever_says_it(server: str, status: int) -> None:
    assert refused(status, OVERFLOWS[server]).kind == "context"


def test_a_request_that_no_minute_allows_is_an_overflow_and_another_limit_is_not() -> None:
    never = "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000."
    assert refused(429, {"message": never}).kind == "context"
    assert refused(429, {"message": "Too many tokens per minute; maximum context length"}).kind == "rate_limit"
    for message in ("Invalid value for 'messages'.", "max_tokens is too large", "Conversation roles must alternate"):
        assert refused(400, {"message": message}).kind == "bad_request"


@pytest.mark.parametrize(
    ("status", "body", "kind", "quoted"),
    [
        (400, {"error": "Incorrect API key provided: xa***. Get one"}, "authentication", "Incorrect API key provided"),
        (400, "Incorrect API key provided: xa***.", "authentication", "Incorrect API key provided"),
        (400, {"message": "{'error': 'Invalid model name passed in model=x'}"}, "configuration", "Invalid model name"),
        (400, {"message": "foo/bar is not a valid model ID"}, "configuration", "foo/bar is not a valid model ID"),
        (400, {"message": "library/gemma does not support tools"}, "configuration", "does not support tools"),
        (500, {"message": "tools param requires --jinja flag"}, "configuration", "cannot call tools"),
        (404, {"message": "No endpoints found that support tool use."}, "configuration", "support tool use"),
        (
            400,
            {"message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'},
            "configuration",
            "tool choice requires",
        ),
        (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "bad_request", "“field required”"),
        (400, {"detail": "Not today"}, "bad_request", "“Not today”"),
        (
            400,
            {"message": "Provider returned error", "metadata": {"raw": "upstream said no"}},
            "bad_request",
            "“upstream said no”",
        ),
        (
            503,
            {"message": "Provider returned error", "metadata": {"raw": '{"error":{"message":"no capacity"}}'}},
            "overloaded",
            "“no capacity”",
        ),
    ],
)
def test_the_provider_s_own_words_are_quoted_and_understood(
    status: int, body: object, kind: FailureKind, quoted: str
) -> None:
    error = refused(status, body)
    assert error.kind == kind
    assert quoted in str(error)
    assert error.retryable is (kind == "overloaded")
    assert error.retryable or "Send the prompt again" not in error.remedy


RETRY_INFO = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7.5s"}]


@pytest.mark.parametrize(
    ("body", "headers", "wait"),
    [
        ({"message": "Please try again in 1m12s."}, {}, 72),
        ({"message": "Please try again in 1h0m3.5s. Visit"}, {}, 3603.5),
        ({"message": "Please try again in 20ms."}, {}, 0.02),
        ({"message": "Try again in 1.2 s"}, {}, 1.2),
        ({"message": "Please retry after 26 seconds."}, {}, 26),
        ({"message": "Please wait 2 minutes and 5 seconds"}, {}, 125),
        ({"error": {"message": "Please retry in 7.4s.", "details": RETRY_INFO}}, {}, 7.5),
        ({"message": "slow down"}, {"retry-after": "12"}, 12),
        ({"message": "slow down"}, {"retry-after": "0.5"}, 0.5),
        ({"message": "slow down"}, {"retry-after-ms": "300"}, 0.3),
        ({"message": "try again in 5 models"}, {}, None),
        ({"message": "slow down"}, {}, None),
    ],
)
@pytest.mark.parametrize("status", [429, 503, 500])
def test_a_wait_is_read_in_every_form(status: int, body: object, headers: dict[str, str], wait: float | None) -> None:
    assert refused(status, body, **headers).retry_after == (None if wait is None else pytest.approx(wait))


def test_a_wait_may_be_a_date() -> None:
    from datetime import UTC, datetime, timedelta
    from email.utils import format_datetime

    later = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    wait = refused(429, {}, **{"retry-after": later}).retry_after
    assert wait is not None
    assert 25 < wait <= 30


@given(
    st.recursive(
        st.none() | st.booleans() | st.text() | st.floats(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["error", "message", "detail", "metadata", "raw", "x"]), inner)
        ),
    )
)
def test_any_body_has_a_kind_and_a_message(body: object) -> None:
    for given_body in (body, json.dumps(body)):
        assert isinstance(message_in(given_body), str)
        wait_in(given_body)
        assert refused(400, given_body).remedy


def waits(problem: TurnError) -> list[float]:
    retries = Retries(lambda: 0.5)
    out: list[float] = []
    while (wait := retries.wait_after(problem, 0)) is not None:
        out.append(wait)
    return out


def test_a_busy_provider_is_waited_for_about_90_seconds_and_a_broken_connection_is_not() -> None:
    busy = TurnError("", remedy="", retryable=True, kind="overloaded")
    assert waits(busy) == [1, 2, 4, 8, 16, 30, 29]
    assert waits(TurnError("", remedy="", retryable=True, kind="network")) == [1, 2, 4]
    assert waits(TurnError("", remedy="", kind="bad_request")) == []


@pytest.mark.parametrize(("said", "expected"), [(20.0, [20, 20, 20, 20]), (80.0, [80]), (100.0, []), (0.0, [0] * 11)])
def test_a_wait_that_is_said_is_kept_up_to_the_same_patience(said: float, expected: list[float]) -> None:
    assert waits(TurnError("", remedy="", retryable=True, kind="rate_limit", retry_after=said)) == expected
    assert sum(expected) <= PATIENCE


def test_a_response_renews_the_patience() -> None:
    retries = Retries(lambda: 0.5)
    busy = TurnError("", remedy="", retryable=True, kind="overloaded", retry_after=80)
    assert [retries.wait_after(busy, answers) for answers in (0, 0, 1)] == [80, None, 80]
