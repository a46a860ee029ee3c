"""Shards: what joins and patterns on Spark share. Rows go to shards, each shard is a task with state."""
