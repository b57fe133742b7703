"""Generates the reference pages of `docs/` from the program: settings, commands, tools. `make generate` writes them."""
