"""The program of a query: its plan written as Python and compiled."""
