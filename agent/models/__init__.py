"""Models behind one protocol: what summarises, embeds and extracts, and which profile of them is active."""
