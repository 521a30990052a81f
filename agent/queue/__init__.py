"""``mem_tree_jobs``: kinds, enqueue, claim, settle, recovery, the sweep runner, the wake-up."""
