"""Tasks in the background: turns in a worktree and a process of their own, here or on a worker."""
