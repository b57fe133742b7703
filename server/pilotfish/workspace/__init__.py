"""The only door to files and processes."""
