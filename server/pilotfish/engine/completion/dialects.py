"""Asks a model for the text at a cursor: with fill-in-the-middle where its server has it, otherwise in a small chat.

| dialect | request |
| --- | --- |
| `ollama` | `POST /api/generate` with `suffix` |
| `infill` | `POST /infill` of llama.cpp |
| `fim` | `POST /v1/fim/completions` of Mistral |
| `suffix` | `POST /v1/completions` with `suffix`, as OpenAI defined it |
| `chat` | an ordinary request to the model, for every other one |

A server that refuses its dialect is asked by chat from then on. Requests go through the model's own SDK client, with
its address, key and limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, assert_never, cast
from urllib.parse import urlsplit

from pydantic_ai import Agent
from pydantic_ai.models import Model
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from pilotfish.conversation.records import Usage
from pilotfish.engine.completion.cursor import Cursor, Snippet, from_chat
from pilotfish.engine.model.catalog.providers import LOOPBACK, OPENAI_PREFIXES, split
from pilotfish.engine.model.failures.error_body import quoted
from pilotfish.engine.model.failures.errors import failure
from pilotfish.errors import TurnError
from pilotfish.policy.secrets import mask

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

Dialect = Literal["ollama", "infill", "fim", "suffix", "chat"]
Json = dict[str, Any]

LINE_TOKENS, BLOCK_TOKENS, CHAT_TOKENS = 64, 192, 512
NOT_SERVED = (400, 404, 405, 415, 422, 501)
"""statuses of a server that does not know the request, or whose model cannot fill in"""
SUFFIX_PREFIXES = frozenset(
    {"", "openai-compatible", "vllm", "lmstudio", "litellm", "together", "fireworks", "deepseek"}
)
COMMENTS = {
    "#": "python ruby shellscript perl r yaml toml makefile dockerfile elixir julia powershell coffeescript",
    "//": "javascript javascriptreact typescript typescriptreact java c cpp csharp go rust php swift kotlin scala dart"
    " groovy objective-c zig",
    "--": "lua sql haskell ada elm",
}
"""how a line comment begins, and the languages"""
INSTRUCTIONS = """You complete code in an editor. You are given a file with <cursor/> where the user types.
Answer with the text to insert at <cursor/> and nothing else: no explanation, no fence, nothing that stands before or
after the cursor already. Prefer a short completion: the rest of the line, or the few lines of this step. If nothing
should be inserted, answer with nothing."""


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    usage: Usage


class Asker:
    """Asks one model. It remembers if the server does not fill in."""

    def __init__(self, name: str, model: Model[Any], *, endpoint: bool) -> None:
        while isinstance(model, WrapperModel):
            model = model.wrapped
        self._model = model
        self._client = _openai_client(model)
        self.dialect: Dialect = _dialect(name, self._client, endpoint=endpoint)

    async def ask(self, cursor: Cursor, name: str, recent: Sequence[Snippet]) -> Answer:
        """The model's answer. `name` is the path of the file for the model. Raises TurnError."""
        if self.dialect != "chat" and self._client is not None:
            from openai import APIConnectionError, APIStatusError

            try:
                return await self._fill_in(self._client, self.dialect, cursor, name, recent)
            except APIStatusError as error:
                if error.status_code not in NOT_SERVED:
                    raise _refused(error) from error
                self.dialect = "chat"
            except APIConnectionError as error:
                raise failure(error.__cause__ if isinstance(error.__cause__, Exception) else error) from error
        try:
            return await self._chat(cursor, name, recent)
        except Exception as error:
            raise failure(error) from error

    async def _fill_in(
        self, client: AsyncOpenAI, dialect: Dialect, cursor: Cursor, name: str, recent: Sequence[Snippet]
    ) -> Answer:
        path, body = _request(dialect, self._model.model_name, str(client.base_url), cursor, name, recent)
        options = {"security": {"bearer_auth": True}}
        answer: Any = await client.post(path, body=body, cast_to=cast("Any", object), options=cast("Any", options))
        return self._answer(_Read(answer))

    def _answer(self, read: _Read) -> Answer:
        address = self._model.base_url or ""
        return Answer(read.text, _priced(read.input_tokens, read.output_tokens, self._model.model_name, address))

    async def _chat(self, cursor: Cursor, name: str, recent: Sequence[Snippet]) -> Answer:
        others = "".join(f'<changed_lately path="{one.name}">\n{one.text}\n</changed_lately>\n' for one in recent)
        text = f"{others}{name} ({cursor.language}):\n{mask(cursor.before)[0]}<cursor/>{mask(cursor.after)[0]}"
        result = await _agent().run(text, model=self._model)
        used = result.usage
        usage = _priced(used.input_tokens, used.output_tokens, self._model.model_name, self._model.base_url or "")
        return Answer(from_chat(result.output, cursor), usage)


class _Read:
    """What the dialects answer, in one form."""

    def __init__(self, answer: Any) -> None:
        body: Json = cast("Json", answer) if isinstance(answer, dict) else {}
        used: Json = body.get("usage") or {}
        choices: Sequence[Json] = body.get("choices") or ()
        choice: Json = choices[0] if choices else body
        message: Json = choice.get("message") or choice
        found = message.get("text") or message.get("content") or message.get("response")
        self.text = found if isinstance(found, str) else ""
        counted = {**body, **used}
        self.input_tokens = _count(counted, "prompt_tokens", "prompt_eval_count", "tokens_evaluated")
        self.output_tokens = _count(counted, "completion_tokens", "eval_count", "tokens_predicted")


def _count(counted: Json, *names: str) -> int:
    found = (counted.get(name) for name in names)
    return next((max(0, number) for number in found if isinstance(number, int)), 0)


def _openai_client(model: Model[Any]) -> AsyncOpenAI | None:
    from pydantic_ai.models.openai import OpenAIChatModel

    return model.client if isinstance(model, OpenAIChatModel) else None


def _dialect(name: str, client: AsyncOpenAI | None, *, endpoint: bool) -> Dialect:
    if client is None:
        return "chat"
    prefix, _ = split(name)
    host = urlsplit(str(client.base_url)).hostname or ""
    if prefix == "ollama":
        return "ollama"
    if prefix == "llamacpp":
        return "infill"
    if prefix == "mistral" or host.endswith("mistral.ai"):
        return "fim"
    compatible = prefix in OPENAI_PREFIXES and host != "api.openai.com"
    return "suffix" if compatible or endpoint or prefix in SUFFIX_PREFIXES else "chat"


def _request(
    dialect: Dialect, model: str, address: str, cursor: Cursor, name: str, recent: Sequence[Snippet]
) -> tuple[str, Json]:
    """The address, relative to that of the API or absolute, and the body."""
    tokens, stop = (LINE_TOKENS, ["\n"]) if cursor.in_line else (BLOCK_TOKENS, ["\n\n\n"])
    before, after = mask(cursor.before)[0], mask(cursor.after)[0]
    root = address.rstrip("/").removesuffix("/v1")
    commented = _as_comments(cursor.language, name, recent) + before
    match dialect:
        case "ollama":
            # Without a suffix Ollama answers as in a chat.
            options = {"num_predict": tokens, "temperature": 0, "stop": stop}
            body: Json = {"model": model, "prompt": commented, "suffix": after or "\n", "stream": False}
            return f"{root}/api/generate", {**body, "options": options}
        case "infill":
            extra = [{"filename": one.name, "text": one.text} for one in recent]
            body = {"input_prefix": before, "input_suffix": after, "input_extra": extra, "prompt": ""}
            return f"{root}/infill", {**body, "n_predict": tokens, "temperature": 0, "stop": stop, "cache_prompt": True}
        case "fim" | "suffix":
            body = {"model": model, "prompt": commented, "max_tokens": tokens, "temperature": 0, "stop": stop}
            if after.strip():
                body["suffix"] = after
            if urlsplit(address).hostname == "api.deepseek.com":
                return f"{root}/beta/completions", body
            return "/fim/completions" if dialect == "fim" else "/completions", body
        case "chat":
            raise AssertionError("a chat has no request of this form")
        case _:
            assert_never(dialect)


def _as_comments(language: str, name: str, recent: Sequence[Snippet]) -> str:
    """The path, and what was changed lately, as comments at the beginning of the file."""
    sign = next((sign for sign, languages in COMMENTS.items() if language in languages.split()), None)
    if sign is None:
        return ""
    lines = [line for one in recent for line in (f"{one.name}:", *one.text.split("\n"))]
    return "".join(f"{sign} {line}\n" for line in (*lines, name))


def _priced(input_tokens: int, output_tokens: int, model: str, address: str) -> Usage:
    """The usage of one request, with its price if it is known."""
    usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens, requests=1)
    if urlsplit(address).hostname in (*LOOPBACK, "in-process"):
        return usage
    cost = _price(address)(input_tokens, output_tokens, model)
    return usage + Usage(cost=cost, unpriced_requests=int(cost is None))


@cache
def _price(address: str) -> Callable[[int, int, str], float | None]:
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    def price(input_tokens: int, output_tokens: int, model: str) -> float | None:
        tokens = Tokens(input_tokens=input_tokens, output_tokens=output_tokens)
        try:
            return float(calc_price(tokens, model, provider_api_url=address).total_price)
        except LookupError:
            return None

    return price


def _refused(error: APIStatusError) -> TurnError:
    message = f"The server answered: {quoted(error.message)}."
    if error.status_code in (401, 403):
        return TurnError(message, remedy="Check the API key of its provider.", kind="authentication")
    return TurnError(message, remedy="Choose another `completionModel`, or try again later.", kind="overloaded")


@cache
def _agent() -> Agent[None, str]:
    # Thoughts take longer than a user waits; providers that cannot switch them off ignore this.
    settings = ModelSettings(thinking=False, max_tokens=CHAT_TOKENS)
    return Agent(None, name="completion", instructions=INSTRUCTIONS, model_settings=settings, retries=0)
