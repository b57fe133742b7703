"""The store in SQLite: the database file, its schema and tables, its repair, and the tables in memory."""
