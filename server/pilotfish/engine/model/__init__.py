"""Models: resolving names, providers, catalog, errors, the message adapter, HTTP."""
