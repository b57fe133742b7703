"""The second face: the Agent Client Protocol. The only room that knows its SDK."""
