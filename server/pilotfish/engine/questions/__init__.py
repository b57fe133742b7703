"""Questions that wait for the user, in this process and for others."""
