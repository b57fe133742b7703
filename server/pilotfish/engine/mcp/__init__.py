"""The MCP servers of the user: their configuration, connections, tools, resources and prompts."""
