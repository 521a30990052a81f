"""The built-in profile: no downloads, no network, deterministic."""
