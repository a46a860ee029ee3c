"""The shards of joins and patterns on Spark: rows are sent to shards, and a shard is a task with state."""
