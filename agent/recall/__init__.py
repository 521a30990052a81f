"""Getting the memory back: search, drill-down, where things come from."""
