"""Numerics that the learners stand on: it never learns and reads no files."""
