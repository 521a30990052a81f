"""Seeded homes: the same seed writes the same bytes on every machine. All of the text is invented."""
