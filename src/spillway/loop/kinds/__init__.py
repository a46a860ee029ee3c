"""What the loop decides for each kind of work."""
