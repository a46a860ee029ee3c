"""Values that all kinds of work share: plain tables and words as codes."""
