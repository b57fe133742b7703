"""The model that is there without a connection: a script."""
