"""Remember and find."""
