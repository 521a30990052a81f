"""Tests of lane 1."""
