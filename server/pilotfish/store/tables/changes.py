"""Reports what a transaction changes to the other processes that use the database."""

from __future__ import annotations

from typing import Final

LISTS: Final = ""
"""the topic of changes that lists of sessions show; other topics are the ids of sessions"""

LISTED: Final = frozenset({"turn_start", "turn_end"})
"""types of records that change what lists of sessions show"""


class ReportsChanges:
    """Collects the topics of one transaction. A database reports them in the transaction or after it."""

    def __init__(self) -> None:
        self._touched: set[str] = set()
        self._listed: set[str] = set()

    def touch(self, session_id: str, *, listed: bool = False) -> None:
        """Report a change of a session to the processes that follow it. If `listed`, lists of sessions show it too."""
        if session_id not in self._touched:
            self._touched.add(session_id)
            self.announce(session_id)
        if listed and session_id not in self._listed:
            self._listed.add(session_id)
            self.announce_lists(session_id)

    def forget_changes(self) -> None:
        """Called when a transaction begins."""
        self._touched.clear()
        self._listed.clear()

    def report_changes(self) -> None:
        """Called when a transaction has been committed."""
        if self._touched:
            self.report(frozenset(self._touched | ({LISTS} if self._listed else set())))

    def announce(self, session_id: str) -> None:
        """Called in the transaction that changes a session, once."""

    def announce_lists(self, session_id: str) -> None:
        """Called in a transaction that changes what lists show of a session, while the session exists."""

    def report(self, topics: frozenset[str]) -> None:
        """Called after the commit."""
