"""The editor behind the connection: documents, edits, code actions, approvals, mentions."""
