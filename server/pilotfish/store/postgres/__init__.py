"""The store in PostgreSQL: its connection, schema, tables, full-text search and locks.

psycopg is imported here only, and only when `storage` names a PostgreSQL server (the extra `pilotfish[postgres]`).
"""
