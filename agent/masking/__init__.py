"""What a secret looks like, one module for each way of telling. ``mask.py`` puts them together."""
