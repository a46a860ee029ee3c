"""The selection of comparisons: how many, in which part of the windows, and for which rows."""
