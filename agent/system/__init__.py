"""Effects of the operating system: one protocol each, a real one and a fake."""
