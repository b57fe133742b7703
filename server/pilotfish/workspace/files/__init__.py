"""Open buffers and files on disk: reading, editing, undo."""
