"""Models that the user's editor serves."""
