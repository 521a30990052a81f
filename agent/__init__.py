"""Sapwood: a quiet desktop agent that grows a private memory tree on its owner's machine."""

__version__ = "0.1.0"
