"""Pilotfish: an AI coding agent that lives where a language server lives."""

__version__ = "0.2.0"
