"""The read-only sandbox and the workspace sandbox, which commands run in."""
