"""Trees over the memory's leaves: shape, buffers, seals, document trees, flush, sweeps, invariants."""
