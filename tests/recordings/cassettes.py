"""Reads the answers of providers out of recordings of VCR.py, in the three forms that projects keep them in."""

from __future__ import annotations

import base64
import gzip
import importlib
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

Kind = Literal["chat", "responses", "anthropic", "google"]
Json = dict[str, Any]

PATHS: tuple[tuple[str, Kind], ...] = (
    ("/chat/completions", "chat"),
    ("/responses", "responses"),
    ("/v1/messages", "anthropic"),
    (":generateContent", "google"),
    (":streamGenerateContent", "google"),
)
SHAPES: tuple[tuple[re.Pattern[bytes], Kind], ...] = (
    (re.compile(rb'"object": ?"chat\.completion'), "chat"),
    (re.compile(rb'"object": ?"response"'), "responses"),
    (re.compile(rb'"type": ?"message_start"|"type": ?"message", ?"role": ?"assistant"'), "anthropic"),
    (re.compile(rb'"candidates": ?\['), "google"),
)
"""for recordings without addresses"""


@dataclass(frozen=True)
class Recording:
    """One answer of a provider."""

    name: str
    kind: Kind
    host: str
    model: str
    status: int
    body: bytes

    @property
    def is_stream(self) -> bool:
        return self.body.lstrip().startswith((b"data:", b"event:", b":"))


def recordings(folder: Path) -> Iterator[Recording]:
    """Every different answer of a model below `folder`, in the order of the files' names."""
    seen: set[tuple[str, bytes]] = set()
    for file in sorted(folder.rglob("*")):
        if not (file.name.endswith((".yaml", ".yaml.gz")) and any("cassettes" in part for part in file.parts)):
            continue
        name = "/".join(file.relative_to(folder).parts).removesuffix(".gz").removesuffix(".yaml")
        for number, recording in enumerate(read(file)):
            if recording is not None and (key := (recording.kind, recording.body)) not in seen:
                seen.add(key)
                yield replace(recording, name=f"{name}:{number}")


def read(file: Path) -> Iterator[Recording | None]:
    """The answers of one file in order. None for what is no answer of a model in one of the four dialects."""
    yaml: Any = importlib.import_module("yaml")  # `make recordings` installs it; nothing else needs it
    data = file.read_bytes()
    whole: Json = yaml.load(gzip.decompress(data) if file.suffix == ".gz" else data, yaml.CSafeLoader) or {}
    pairs = [(each.get("request"), each.get("response")) for each in whole.get("interactions", ())]
    pairs += zip(whole.get("requests", ()), whole.get("responses", ()), strict=False)
    for request, response in pairs:
        usable = isinstance(request, dict) and isinstance(response, dict)
        yield _recording(cast("Json", request), cast("Json", response)) if usable else None


def _recording(request: Json, response: Json) -> Recording | None:
    address = str(request.get("uri", ""))
    body = _body(response)
    kind = _kind(urlsplit(address).path, body)
    status: Any = response.get("status")
    code: Any = cast("Json", status).get("code") if isinstance(status, dict) else status
    if kind is None or not isinstance(code, int) or not body:
        return None
    asked = _json(_body(request))
    model = str(asked.get("model") or "")
    return Recording("", kind, urlsplit(address).hostname or "", model, code, body)


def _kind(path: str, body: bytes) -> Kind | None:
    if "/threads/" in path:
        return None  # OpenAI's assistants
    for end, kind in PATHS:
        if path.endswith(end):
            return kind
    if path and "REDACTED" not in path:
        return None
    return next((kind for shape, kind in SHAPES if shape.search(body)), None)


def _body(message: Mapping[str, Any]) -> bytes:
    if (parsed := message.get("parsed_body")) is not None:
        return parsed.encode() if isinstance(parsed, str) else json.dumps(parsed).encode()
    value: Any = message.get("body")
    if isinstance(value, dict):
        whole = cast("Json", value)
        value = base64.b64decode(whole["base64_string"]) if "base64_string" in whole else whole.get("string")
    data: bytes = value.encode() if isinstance(value, str) else value or b""
    if data[:2] == b"\x1f\x8b":
        return gzip.decompress(data)
    if "deflate" in str(message.get("headers", {})).lower() and data[:1] == b"\x78":
        return zlib.decompress(data)
    return data


def _json(data: bytes) -> Json:
    try:
        value: Any = json.loads(data)
    except ValueError:
        return {}
    return cast("Json", value) if isinstance(value, dict) else {}
