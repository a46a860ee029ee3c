"""The loop: from reports of finished batches to the decision for the next one. It needs no Spark."""
