"""What runs bring and take, learned from a recorded stretch of the stream."""
