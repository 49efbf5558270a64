"""What a conversation can ask: a fitted model, a calculator, the notes."""
