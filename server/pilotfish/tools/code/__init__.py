"""Tools that use what language servers know, and report findings as diagnostics."""
