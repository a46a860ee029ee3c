"""The feedback loop: turns reports of finished batches into decisions for the next ones. It needs no Spark."""
