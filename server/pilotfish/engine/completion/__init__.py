"""Inline completion: text at the cursor, asked of a fast model of its own."""
