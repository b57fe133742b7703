"""The history that is sent to a model: validation, repair and trimming, as pure functions."""
