"""Chains of the rows of repeated variables: runs share the part of a chain in which they have the same rows.

A node is a row and the node before it, with the values of the row that conditions on all rows of a sequence need. A
run holds its last node. When there is no room for new nodes, unused ones are freed: all nodes that are reached from
runs are marked and moved together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from spillway.core.arrays import Array
from spillway.core.kernel import kernel

_LEAST = 256


class Chains(NamedTuple):
    """Row and previous node (-1: none) of each node, its values, and how many nodes there are."""

    links: Array
    ints: Array
    floats: Array
    top: Array


def empty(ints: int, floats: int, nodes: int = 0) -> Chains:
    """Return chains with room for about twice as many nodes."""
    room = max(_LEAST, 2 * nodes)
    return Chains(
        np.zeros((2, room), np.int64),
        np.zeros((ints, room), np.int64),
        np.zeros((floats, room)),
        np.zeros(1, np.int64),
    )


@kernel
def _mark(links: Any, heads: Any, used: Any) -> None:
    for head in heads:
        at = head
        while at >= 0 and not used[at]:
            used[at] = True
            at = links[1, at]


def collect(chains: Chains, heads: Sequence[Array]) -> tuple[Chains, Array]:
    """Return the chains with only the nodes in use, and the new number of each old node."""
    top = int(chains.top[0])
    used = np.zeros(top, np.bool_)
    for part in heads:
        _mark(chains.links, np.ascontiguousarray(part), used)
    kept = np.flatnonzero(used)
    number = np.full(top + 1, -1, np.int64)  # the last entry stands for "none"
    number[kept] = np.arange(len(kept))
    new = empty(len(chains.ints), len(chains.floats), len(kept))
    new.links[0, : len(kept)] = chains.links[0, kept]
    new.links[1, : len(kept)] = number[chains.links[1, kept]]
    new.ints[:, : len(kept)] = chains.ints[:, kept]
    new.floats[:, : len(kept)] = chains.floats[:, kept]
    new.top[0] = len(kept)
    return new, number


def snapshot(chains: Chains) -> dict[str, Array]:
    """Return the nodes as arrays."""
    top = int(chains.top[0])
    return {"links": chains.links[:, :top], "ints": chains.ints[:, :top], "floats": chains.floats[:, :top]}


def restore(state: Mapping[str, Array], ints: int, floats: int) -> Chains:
    """Return the chains of a snapshot."""
    top = state["links"].shape[1]
    new = empty(ints, floats, top)
    new.links[:, :top] = state["links"]
    new.ints[:, :top] = state["ints"]
    new.floats[:, :top] = state["floats"]
    new.top[0] = top
    return new
