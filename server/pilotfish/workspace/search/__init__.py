"""Finding files and lines: ripgrep, ignore rules, the file index."""
