"""Logs and memory usage."""
