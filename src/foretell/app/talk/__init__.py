"""Ask a folder of notes and a fitted model, by keyboard or voice."""
