"""Sessions on disk: the ledger (records), the catalog (sessions) and the leases on sessions.

`db` holds the SQLite side, `export` the formats a session is exported to and imported from.
"""
