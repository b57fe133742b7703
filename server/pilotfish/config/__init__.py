"""Settings, stored rules and folder trust."""
