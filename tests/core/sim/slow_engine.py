"""The pipelined engine once more, as plainly as possible: lists, one event at a time, no resuming.

Written from the description of the engine, not from its code; only the hash that decides a filter is shared.
"""

from __future__ import annotations

import numpy as np

from spillway.sim.kernel import uniform


def slow_run(arrivals, network, costs_s, *, cost_at, headroom, schedule, limit, seed):
    """Return each row's delay, None where the row found ``limit`` rows inside."""
    children = {o.name: [p.name for p in network.operators if o.name in p.inputs] for o in network.operators}
    order = [o.name for o in network.operators]
    cost = dict(zip(order, costs_s, strict=True))
    passes = {o.name: o.selectivity for o in network.operators}
    queues = {name: [] for name in order}
    pieces: dict[int, int] = {}
    delays = [None] * len(arrivals)
    coming = list(enumerate(arrivals))
    now, turn = 0.0, 0

    def let_in(until):
        while coming and coming[0][1] <= until:
            row, _ = coming.pop(0)
            if len(pieces) < limit:
                entries = [o.name for o in network.operators if not o.inputs]
                pieces[row] = len(entries)
                for name in entries:
                    queues[name].append(row)

    while coming or pieces:
        ready = [name for name in order if queues[name]]
        if not ready:
            now = max(now, coming[0][1])
            row = coming[0][0]
            let_in(coming[0][1])
            if row not in pieces and not pieces:
                continue
            ready = [name for name in order if queues[name]]
        if schedule == "round_robin":
            name = min(ready, key=lambda name: (order.index(name) - turn) % len(order))
        else:
            name = min(ready, key=lambda name: (queues[name][0], -order.index(name)))
        turn = order.index(name) + 1
        row = queues[name].pop(0)
        end = now + cost[name] * cost_at(now) / headroom
        let_in(end)
        now = end
        if uniform(seed, row, order.index(name)) < passes[name]:
            for child in children[name]:
                queues[child].append(row)
                pieces[row] += 1
        pieces[row] -= 1
        if not pieces[row]:
            del pieces[row]
            delays[row] = now - arrivals[row]
    return np.array([np.nan if delay is None else delay for delay in delays])
