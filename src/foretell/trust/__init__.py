"""Decide what may be said and shown."""
