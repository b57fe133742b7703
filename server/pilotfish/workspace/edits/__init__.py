"""Edits of files: finding their places, drafting, applying, reviewing and undoing them."""
