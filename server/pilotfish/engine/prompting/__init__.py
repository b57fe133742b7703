"""What a prompt brings along: its blocks, mentions, and files that it names."""
