"""Formats of a session outside of the database: JSON archive, Markdown, and the older JSON format."""
