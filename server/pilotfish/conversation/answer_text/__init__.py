"""What is found in the text of an answer: calls and files that a model wrote as text."""
