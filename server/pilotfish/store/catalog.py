"""The catalog: lists, searches, renames, forks, deletes, exports and imports sessions."""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson

from pilotfish.errors import BadRequest
from pilotfish.store.ledger import Ledger
from pilotfish.store.rows import SessionRow, Snippet
from pilotfish.store.search_terms import terms_of
from pilotfish.store.tables.bodies import blobs_of
from pilotfish.store.tables.tables import LAST_N, ShareLevel, Tables

if TYPE_CHECKING:
    from pilotfish.store.export.archive import SessionArchive

__all__ = ["Catalog", "ListedSession", "SessionRow", "Snippet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSession:
    """A page of sessions, newest first. `snippets` maps the id of a session to the match in its text, for a search."""

    sessions: tuple[SessionRow, ...]
    next_cursor: str | None
    snippets: Mapping[str, Snippet] = field(default_factory=dict[str, Snippet])
    open_turns: frozenset[str] = frozenset()
    """the sessions whose last turn has not ended: it runs, or its process has died"""


class Catalog:
    """The sessions of a ledger. Every method that takes a session id raises `UnknownSession` if there is none."""

    def __init__(self, ledger: Ledger, clock: Callable[[], float] = time.time) -> None:
        self._ledger = ledger
        self._clock = clock

    async def create(self, row: SessionRow) -> SessionRow:
        """Add an empty session. If its title is empty, the first prompt becomes the title."""
        await self._ledger.write(lambda tables: tables.create(row))
        return row

    async def get(self, session_id: str) -> SessionRow:
        return await self._ledger.read(lambda tables: tables.get(session_id))

    async def list(
        self,
        workspace: str | None = None,
        query: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> ListedSession:
        """List sessions, newest first, of one workspace or of all. `cursor` is the `next_cursor` of the previous page.

        A `query` selects the sessions in which each of its words is a prefix of a word in the title or in a message.
        "Words in quotes" match as a phrase.
        """
        before = _from_cursor(cursor) if cursor is not None else None
        terms = terms_of(query or "")
        if query and query.strip() and not terms:
            return ListedSession(sessions=(), next_cursor=None)
        limit = max(1, limit)

        def find(tables: Tables) -> ListedSession:
            rows = tables.newest(workspace, terms, before, limit + 1)
            cursor = _to_cursor(rows[limit - 1]) if len(rows) > limit else None
            del rows[limit:]
            snippets = {row.id: tables.snippet(row.id, terms) for row in rows} if terms else {}
            return ListedSession(
                sessions=tuple(rows),
                next_cursor=cursor,
                snippets={id_: snippet for id_, snippet in snippets.items() if snippet is not None},
                open_turns=frozenset(tables.with_open_turn([row.id for row in rows])),
            )

        return await self._ledger.read(find)

    async def rename(self, session_id: str, title: str) -> SessionRow:
        """Set the title that the user chose."""
        await self._ledger.write(lambda tables: tables.rename(session_id, title))
        return await self.get(session_id)

    async def improve_title(self, session_id: str, title: str) -> SessionRow:
        """Replace a generated title. A title that the user chose is left alone."""
        await self._ledger.write(lambda tables: tables.improve_title(session_id, title))
        return await self.get(session_id)

    async def configure(self, session_id: str, model: str | None = None, mode: str | None = None) -> SessionRow:
        """Set the model or the mode of later turns. None leaves it unchanged."""
        await self._ledger.write(lambda tables: tables.configure(session_id, model, mode))
        return await self.get(session_id)

    async def share(self, session_id: str, level: ShareLevel) -> None:
        """Set what the other users of the database may do with a session. Raises `StorageError` if it has one user."""
        await self._ledger.write(lambda tables: tables.share(session_id, level))

    async def delete(self, session_id: str) -> None:
        """Delete a session: its records, its text in the search index, and blobs that no other session references. The
        freed space is overwritten. Raises `SessionBusy` if another process has the lease."""
        await self.get(session_id)
        lease = await self._ledger.lease(session_id)
        try:
            await self._ledger.delete(session_id)
        finally:
            lease.release()

    async def fork(self, session_id: str, new_id: str, upto_n: int | None = None) -> SessionRow:
        """Create a session with the records up to and including `upto_n`, or all of them. Its usage starts at zero."""
        now = self._clock()

        def fork(tables: Tables) -> None:
            source = tables.get(session_id)
            row = SessionRow(
                id=new_id,
                title=f"{source.title} (fork)" if source.title else "",
                workspace=source.workspace,
                model=source.model,
                mode=source.mode,
                created_at=now,
                updated_at=now,
                forked_from=session_id,
                imported=source.imported if upto_n is None else min(source.imported, upto_n),
            )
            tables.fork(session_id, row, LAST_N if upto_n is None else upto_n)

        await self._ledger.write(fork)
        return await self.get(new_id)

    async def export_markdown(self, session_id: str) -> str:
        """The transcript as Markdown."""
        from pilotfish.conversation.model_history import transcript
        from pilotfish.store.export.markdown import to_markdown

        def export(tables: Tables) -> str:
            entries = [*tables.history(session_id), *tables.unfinished(session_id)]
            entries.sort(key=lambda entry: entry.n)
            return to_markdown(tables.get(session_id), transcript(entries))

        return await self._ledger.read(export)

    async def export_json(self, session_id: str) -> str:
        """The whole session with its blobs, in the format that `import_json` reads."""
        from pilotfish.store.export.archive import SessionArchive, to_json

        def export(tables: Tables) -> str:
            entries = tables.history(session_id)
            blobs = {hash_: tables.get_blob(hash_) for entry in entries for hash_ in blobs_of(entry.record)}
            return to_json(SessionArchive(row=tables.get(session_id), entries=entries, blobs=blobs))

        return await self._ledger.read(export)

    async def import_json(self, text: str, new_id: str, *, workspace: str | None = None) -> SessionRow:
        """Import a session that `export_json` wrote, under a new id. Raises `BadRequest` that names the wrong field."""
        from pilotfish.store.export.archive import from_json

        return await self._import(await asyncio.to_thread(from_json, text), new_id, workspace)

    async def import_legacy(
        self, text: str, new_id: str, *, workspace: str | None = None, model: str = ""
    ) -> SessionRow:
        """Import a `sessions/{id}.json` of the older format, under a new id."""
        from pilotfish.store.export.legacy import from_legacy

        archive = await asyncio.to_thread(from_legacy, text, workspace=workspace, model=model, mode="ask")
        return await self._import(archive, new_id, workspace)

    async def _import(self, archive: SessionArchive, new_id: str, workspace: str | None) -> SessionRow:
        """Anybody may have written the file: its mode, its folder and its approvals do not count here."""
        entries = [entry for entry in archive.entries if entry.record.type != "approval"]
        last = max((entry.n for entry in archive.entries), default=1)
        row = archive.row._replace(id=new_id, mode="ask", workspace=workspace, imported=last)
        await self._ledger.write(lambda tables: tables.bring_in(row, entries, archive.blobs))
        return await self.get(new_id)


def _to_cursor(row: SessionRow) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([row.updated_at, row.id])).decode()


def _from_cursor(cursor: str) -> tuple[float, str]:
    try:
        updated_at, id_ = orjson.loads(base64.urlsafe_b64decode(cursor))
        return float(updated_at), str(id_)
    except (binascii.Error, ValueError, TypeError) as error:
        raise BadRequest("The cursor is not valid.", field="cursor") from error
