"""The history that a request carries: repaired, trimmed, and summarised when it is too long."""
