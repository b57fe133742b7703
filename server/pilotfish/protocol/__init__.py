"""The protocol between client and server: message types, their conversion from records, and generated references."""
