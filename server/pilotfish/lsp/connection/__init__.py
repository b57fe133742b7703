"""The JSON-RPC connection: pygls protocol subclass, stdio, params, request order."""
