"""Which comparisons are made: how many, in which part of the windows, for which rows."""
