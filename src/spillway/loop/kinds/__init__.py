"""The decisions of the loop for each kind of work: groups and windows."""
