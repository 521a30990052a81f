"""Calls of models: what is asked before one, what is paid, what a failure means for all that come after."""
