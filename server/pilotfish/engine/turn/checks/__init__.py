"""What is checked when the model believes that it is done."""
