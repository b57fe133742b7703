"""The words of the wire."""
