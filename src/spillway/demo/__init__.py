"""The demo: a burst through a Spark query, without and with Spillway, and a page about it."""
