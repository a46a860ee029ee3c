"""The engine: it reads rows, extends runs, and writes matches."""
