"""What to shed of patterns: events and runs, by what they bring and what they take."""
