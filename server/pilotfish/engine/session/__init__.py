"""A live session: prompt queue, journal, recovery, compaction, undo."""
