"""The forms in which state is kept: JSON records and blobs of arrays."""
