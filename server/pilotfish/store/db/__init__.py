"""The SQLite database of the store: its file, its two threads, its tables."""
