"""Logs, traces and memory figures."""
