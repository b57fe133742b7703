"""Says where the text of a result comes from, and marks it for the model.

`fenced` puts text that others wrote between tags whose name is new in every turn:

    <untrusted-3f9a1c20 from="web https://example.org/">
    …
    </untrusted-3f9a1c20>

The tag is a hash of the id of the turn. Nobody who wrote the text knew it, and a text that contains it is changed. A
turn that is read from the ledger gets the same tag again, so its messages are sent unchanged.

`Taint` is what policy needs to know about a call after the conversation has read text from outside the workspace. It is
computed from the calls of the ledger alone, so it is the same after a crash (`policy/taint.py`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pilotfish.text.display_safe import one_line

MAX_NAME = 200  # characters of a source's name in the fence
COMMAND_QUOTE = 20  # characters in a row that make an argument a quote of a text
FILE_QUOTE = 80  # the same for the content of a file, which often repeats a line of documentation


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the text of a result comes from."""

    kind: Literal["file", "command", "web", "mcp", "session"]
    name: str
    outside: bool = False
    """Somebody outside the workspace may have written it: a web page, an MCP server, a download."""

    def __str__(self) -> str:
        return self.name if self.kind == "file" else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """Text from outside the workspace is in the conversation: what that means for one call."""

    reason: str
    """Which text was read, as a clause: “this turn has read example.org”."""
    quotes: str | None = None
    """The name of the source that the call copies text from."""
    own_url: bool = False
    """The user wrote the URL of the call."""
    can_cut_network: bool = False
    """The command can run without network, in a sandbox."""


def fence_tag(turn_id: str) -> str:
    """Return the tag of a turn. It cannot be guessed without the id of the turn, which is random."""
    return hashlib.sha256(f"fence {turn_id}".encode()).hexdigest()[:8]


def fenced(text: str, source: Source, turn_id: str) -> str:
    """Return the text between tags that it cannot close. The text of a file changes only if it contains the tag."""
    tag = fence_tag(turn_id)
    text = re.sub(tag, "[tag]", text, flags=re.IGNORECASE)
    if source.kind != "file":
        text = _LOOKS_LIKE_A_FENCE.sub(r"&lt;\1", text)
    name = one_line(str(source)).replace('"', "'")
    name = name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + "…"
    return f'<untrusted-{tag} from="{name}">\n{text}\n</untrusted-{tag}>'


_LOOKS_LIKE_A_FENCE = re.compile(r"[<\uff1c\ufe64\u2039\u3008](\s*/?\s*untrusted)", re.IGNORECASE)


def quoted_source(
    text: str, texts: Iterable[tuple[Source, str]], own: Sequence[str], *, size: int = COMMAND_QUOTE
) -> Source | None:
    """Return the source that `text` copies at least `size` characters in a row from. Blanks and case do not count.

    What the user wrote too (`own`) is not a quote. An encoded or reworded text is not found.
    """
    wanted, block = _folded(text), size // 2
    users = [_folded(words) for words in own]
    for source, content in texts:
        folded = _folded(content)
        # Of any `size` characters in a row, one aligned block of half the size is a part.
        for at in range(0, len(wanted) - block + 1, block):
            if wanted[at : at + block] not in folded:
                continue
            for first in range(max(0, at - size + block), at + 1):
                run = wanted[first : first + size]
                if len(run) == size and run in folded and not any(run in words for words in users):
                    return source
    return None


def _folded(text: str) -> str:
    return "".join(text.split()).casefold()
