"""The weights of models that run in this process: which are known, where they are, and how they are downloaded.

A download continues where an earlier one stopped, and a file gets its name only after its checksum was right. The
hub's address can be changed with HF_ENDPOINT, as for the hub's own tools.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import importlib.util
import os
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BufferedRandom
from pathlib import Path

import httpx2
import platformdirs

from pilotfish.engine.model.wire.http import USER_AGENT, certificates
from pilotfish.errors import BadRequest, StorageError, TurnError
from pilotfish.store.locks import lock_alone, make_private, open_lock_file

PREFIX = "local"
PACKAGE = "xllamacpp"
HUB = "https://huggingface.co"
BLOCK = 256 * 1024  # bytes that are written at once, in a thread
ATTEMPTS = 5  # without a new byte
TIMEOUT = httpx2.Timeout(30.0)

Progress = Callable[[int, int], None]
"""called with the bytes that are there and the bytes of the whole file"""


@dataclass(frozen=True, slots=True)
class Weights:
    """A file of weights on the hub. `revision` and `sha256` name its exact content."""

    name: str
    repository: str
    revision: str
    file: str
    size: int
    sha256: str
    window: int
    """tokens of the context it is loaded with; the model may have a larger one"""
    licence: str

    @property
    def path(self) -> Path:
        return folder() / self.file

    @property
    def url(self) -> str:
        hub = os.environ.get("HF_ENDPOINT") or HUB
        return f"{hub.rstrip('/')}/{self.repository}/resolve/{self.revision}/{self.file}"


KNOWN = (
    Weights(
        name="qwen2.5-coder-1.5b",
        repository="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        revision="f86cb2c1fa58255f8052cc32aeede1b7482d4361",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        window=16_384,
        licence="Apache-2.0",
    ),
)
BY_NAME = {weights.name: weights for weights in KNOWN}


def folder() -> Path:
    """Where downloaded weights are kept. PILOTFISH_MODELS overrides it."""
    given = os.environ.get("PILOTFISH_MODELS")
    return Path(given).expanduser() if given else platformdirs.user_cache_path("pilotfish", appauthor=False) / "models"


def file_of(name: str) -> Path:
    """The file of a model: of known weights, or the one that the user names. Raises TurnError if it is neither."""
    if name in BY_NAME:
        return BY_NAME[name].path
    if not name.endswith(".gguf"):
        names = ", ".join(f"{PREFIX}:{known}" for known in BY_NAME)
        raise TurnError(
            f"The model {PREFIX}:{name} is not known.",
            remedy=f"Models in this process are {names}, and `{PREFIX}:/path/to/a/file.gguf`.",
            kind="configuration",
        )
    return Path(name).expanduser()


def ready_file(name: str) -> Path:
    """The file of a model that can be loaded. Raises TurnError with a remedy if the file or the package is missing."""
    file = file_of(name)
    if not is_installed():
        raise TurnError(
            f"The model {PREFIX}:{name} runs in this process, which needs a package that is not installed.",
            remedy=f"Install it beside Pilotfish: {how_to_install()}",
            kind="configuration",
        )
    if not file.is_file():
        known = BY_NAME.get(name)
        raise TurnError(
            f"The file of {PREFIX}:{name} is not there: {file}.",
            remedy=f"Download it ({known.size / 1e9:.1f} GB): pilotfish download {name}"
            if known
            else "Check the path.",
            kind="configuration",
        )
    return file


def is_installed() -> bool:
    """Whether the package that runs models is installed. It may have been installed while this process runs."""
    importlib.invalidate_caches()
    return importlib.util.find_spec(PACKAGE) is not None


def how_to_install() -> str:
    """The command that installs the package."""
    return f"pip install 'pilotfish[{PREFIX}]'"


def known_weights(model: str) -> Weights:
    """The weights of a model string such as `local:qwen2.5-coder-1.5b`. Raises BadRequest if they are not known."""
    weights = BY_NAME.get(model.removeprefix(f"{PREFIX}:"))
    if weights is None:
        names = ", ".join(f"{PREFIX}:{name}" for name in BY_NAME)
        raise BadRequest(f"id: {model} cannot be downloaded; these can: {names}", field="id")
    return weights


async def download(weights: Weights, progress: Progress) -> Path:
    """The file of the weights, downloaded if it is not there. A cancelled download can be continued later.

    Raises StorageError, with a remedy.
    """
    if weights.path.exists():
        return weights.path
    try:
        async with _part_file(weights) as part:
            await _fetch(weights, part, progress)
            part.flush()
            found = await asyncio.to_thread(_sha256, part)
            if found != weights.sha256:
                part.truncate(0)
                raise StorageError(
                    f"The download of {weights.file} is damaged: its checksum is not that of the published file.",
                    remedy="It was deleted. Download it again; if that does not help, check the proxy.",
                )
            os.fsync(part.fileno())
            _part(weights).replace(weights.path)
    except OSError as error:
        raise StorageError(
            f"{weights.path} cannot be written: {error.strerror or error}.",
            remedy="Make room, or set PILOTFISH_MODELS to another folder.",
        ) from None
    return weights.path


def _part(weights: Weights) -> Path:
    return weights.path.with_name(f"{weights.file}.part")


@asynccontextmanager
async def _part_file(weights: Weights) -> AsyncGenerator[BufferedRandom]:
    """The unfinished file, for this process alone."""
    make_private(folder())
    descriptor = open_lock_file(_part(weights))
    with os.fdopen(descriptor, "r+b") as part:
        if not lock_alone(descriptor):
            raise StorageError(
                f"{weights.file} is being downloaded by another process.", remedy="Wait until it is done."
            )
        size = part.seek(0, os.SEEK_END)
        free = shutil.disk_usage(folder()).free
        if free < weights.size - size:
            raise StorageError(
                f"{weights.file} needs {weights.size / 1e9:.1f} GB, and {folder()} has {free / 1e9:.1f} GB left.",
                remedy="Make room, or set PILOTFISH_MODELS to another folder.",
            )
        yield part


async def _fetch(weights: Weights, part: BufferedRandom, progress: Progress) -> None:
    """Append what is missing. A broken connection is tried again as long as new bytes arrive."""
    attempts = 0
    async with httpx2.AsyncClient(timeout=TIMEOUT, verify=certificates(), follow_redirects=True) as client:
        while (size := part.seek(0, os.SEEK_END)) < weights.size:
            progress(size, weights.size)
            try:
                await _fetch_rest(client, weights, part, size, progress)
            except httpx2.HTTPStatusError as error:
                status = error.response.status_code
                raise StorageError(
                    f"{weights.url} answered with HTTP {status}.",
                    remedy="Try again later, or download the file yourself and use `local:/path/to/file.gguf`.",
                ) from None
            except httpx2.TransportError as error:
                attempts = attempts + 1 if part.seek(0, os.SEEK_END) == size else 0
                if attempts >= ATTEMPTS:
                    raise StorageError(
                        f"{weights.url} cannot be reached: {error}.",
                        remedy="Check the network; the download continues where it stopped.",
                    ) from None
                await asyncio.sleep(0.2 * 2**attempts)
    progress(weights.size, weights.size)


async def _fetch_rest(
    client: httpx2.AsyncClient, weights: Weights, part: BufferedRandom, size: int, progress: Progress
) -> None:
    headers = {"user-agent": USER_AGENT, **({"range": f"bytes={size}-"} if size else {})}
    async with client.stream("GET", weights.url, headers=headers) as response:
        response.raise_for_status()
        if size and response.status_code != 206:  # this server cannot continue a download
            part.truncate(0)
            size = part.seek(0)
        async for block in response.aiter_bytes(BLOCK):
            await asyncio.to_thread(part.write, block)
            size += len(block)
            if size > weights.size:
                part.truncate(0)
                raise StorageError(
                    f"{weights.url} is larger than the published file.", remedy="Check the proxy, or HF_ENDPOINT."
                )
            progress(size, weights.size)


def _sha256(file: BufferedRandom) -> str:
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()
