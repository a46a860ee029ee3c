"""Access paths: how a join finds matches, by nested loops or with an index."""
