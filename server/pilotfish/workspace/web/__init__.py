"""Fetching web pages."""
