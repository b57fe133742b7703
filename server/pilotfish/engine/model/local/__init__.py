"""Models that run in this process, through llama.cpp: `local:NAME` or `local:/path/to/file.gguf`."""
