"""The plan of a query: its steps, keys and conditions, and where each condition is tested."""
