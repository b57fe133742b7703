"""What users and workspaces add to the agent in files: instructions, skills, memory, hooks."""
