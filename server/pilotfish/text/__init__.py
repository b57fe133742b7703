"""Text helpers that every package may use."""
