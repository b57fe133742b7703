"""Access to files, processes, git and the web. No other package opens them for a tool."""
