"""Tools that find, read and change files."""
