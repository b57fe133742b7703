"""What can be used: providers, their models, and where they are listed."""
