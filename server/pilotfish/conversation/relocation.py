"""Moves the file URIs of a record from one folder to another.

A background task works in a copy of a folder. Its records name the files of the folder itself, so that a client can
open them; a process that works in the copy reads them the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pilotfish.conversation.records import FileChangeRecord, Receipt, Record, ToolCallRecord, TurnEndRecord


@dataclass(frozen=True, slots=True)
class Relocation:
    """From the files below one URI to those below another. Neither ends with `/`."""

    source: str
    target: str

    @property
    def reverse(self) -> Relocation:
        return Relocation(self.target, self.source)

    def uri(self, uri: str) -> str:
        inside = uri == self.source or uri.startswith(f"{self.source}/")
        return f"{self.target}{uri.removeprefix(self.source)}" if inside else uri

    def record(self, record: Record) -> Record:
        """The record with every URI that clients open moved. Texts and arguments stay as they are."""
        match record:
            case FileChangeRecord():
                old = None if record.old_uri is None else self.uri(record.old_uri)
                return replace(record, uri=self.uri(record.uri), old_uri=old)
            case ToolCallRecord(call=call) if call.locations:
                places = tuple(replace(place, uri=self.uri(place.uri)) for place in call.locations)
                return replace(record, call=replace(call, locations=places))
            case TurnEndRecord(receipt=receipt) if receipt is not None:
                return replace(record, receipt=self.receipt(receipt))
            case _:
                return record

    def receipt(self, receipt: Receipt) -> Receipt:
        return replace(receipt, changed_files=tuple(map(self.uri, receipt.changed_files)))
