"""Serves editors that use the Agent Client Protocol. The only package that knows its SDK."""
