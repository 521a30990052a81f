"""What a secret looks like, one module for each way of telling. ``agent/ingest/mask.py`` puts them together."""
