"""The paper's own engine: operators on single tuples, WinDrop among them."""
