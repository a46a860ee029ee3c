"""The plan of a query: steps, keys, conditions and where they are tested."""
