"""Validation, repair and trimming of the history that is sent to a model, as pure functions."""
