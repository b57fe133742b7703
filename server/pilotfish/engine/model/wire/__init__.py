"""HTTP to providers: the client, the streams, and the corrections of what servers send."""
