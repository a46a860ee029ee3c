"""The formats in which state is stored: JSON records, and blobs of arrays."""
