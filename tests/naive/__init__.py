"""The trees of a memory built from scratch, the plain way: what ``agent/tree`` must arrive at, however it got there."""
