"""Lane 1: readers, canonical form, chunks, fast score, one transaction."""
