"""Clients without a plugin: an agent through standard LSP alone."""
