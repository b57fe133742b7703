"""Tools that run commands and read their output."""
