"""The paper's own engine: its window operator, its buffers, and the baselines."""
