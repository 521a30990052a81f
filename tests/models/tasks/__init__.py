"""What is asked of models, and what becomes of their answers."""
