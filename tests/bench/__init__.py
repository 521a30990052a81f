"""Benchmarks: ``python -m tests.bench NAME [--quick] [--data DIR] --json``. Never part of the test suite."""
