"""Code generation: the plan of a query is written as a Python program and compiled."""
