"""Sessions on disk: an append-only ledger and the catalog over it."""
