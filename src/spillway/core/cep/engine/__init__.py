"""The engine: rows come in, runs are extended, matches go out."""
