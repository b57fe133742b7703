"""A turn from prompt to outcome. The only room that knows pydantic-ai."""
