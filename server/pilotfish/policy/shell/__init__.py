"""Reads command lines: what a command would run, read and write."""
