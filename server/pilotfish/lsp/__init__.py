"""The language server. The only room that knows pygls and lsprotocol."""
