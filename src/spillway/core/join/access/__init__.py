"""How matches are found: nested loops, or an index."""
