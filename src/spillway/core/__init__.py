"""The algorithms, without Spark: clock, randomness and measurements come in as arguments."""
