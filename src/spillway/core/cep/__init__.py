"""What to shed: events and partial matches of a pattern, where they cost most and bring least."""
