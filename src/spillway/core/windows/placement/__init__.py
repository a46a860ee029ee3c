"""Decides where drops are placed in a plan, and how much is dropped at each place."""

from spillway.core.windows.placement.placement import Box, Query, load_of, place

__all__ = ["Box", "Query", "load_of", "place"]
