"""Folders of notes as passages that can be found: reading, embedding, keeping."""
