"""One module per job kind."""
