"""The agent at a terminal: keys, lines, Markdown, questions."""
