"""What went wrong with a request, in words, and whether it is sent again."""
