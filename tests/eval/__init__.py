"""`make eval`: small real tasks, through the real server, judged by their results."""
