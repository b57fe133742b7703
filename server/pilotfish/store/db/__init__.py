"""The SQLite database of the store: its file, its reader and writer threads, its tables."""
