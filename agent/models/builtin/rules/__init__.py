"""The words and forms that the built-in rules know, one module per kind of thing."""
