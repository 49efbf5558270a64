"""foretell learns your system from recordings, answers questions about it, or says that it cannot."""
