"""``web_requests``: events as a busy web service logs them, for the demo and for first tries.

A row is a raw event: a JSON text of 200 to 250 characters, as it comes off a log or a topic, and beside it
the few plain columns that a producer would put into the message's headers.

============ ========= =====================================================================================
column       type      content
============ ========= =====================================================================================
``id``       bigint    the row's number in the stream: distinct, without gaps, from 0
``payload``  string    JSON: user agent, URL with a query string, IP address, session, latency, status,
                       country, position, priority and bytes sent
``route``    string    the URL's path, 24 of them; ``/`` has a fifth of the rows, ``/metrics`` one in fifty
``user``     bigint    about 17,000 users, a few of them much busier than the rest
``priority`` int       1 (two thirds of the rows) to 5 (one in twenty); the payload says the same
``vip``      boolean   about 2 % of the rows
============ ========= =====================================================================================

Every field of row i is a fixed hash of ``i mod 65,536``, except ``id``, which is i itself: there are 65,536
distinct events, and they come round again in the same order. No random generator is involved, so the
rows are the same on every machine, with every version of numpy and however the range of rows is cut.

>>> web_requests(65_536 + 7, 1).column("payload")[0] == web_requests(7, 1).column("payload")[0]
True
"""

from __future__ import annotations

from functools import cache, partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

POOL_ROWS: Final = 1 << 16
"""Distinct events."""

BLOCK_ROWS: Final = 1 << 14
"""Events made at a time; a range of rows within one block is handed out without a copy."""

SCHEMA: Final = pa.schema(
    {
        "id": pa.int64(),
        "payload": pa.string(),
        "route": pa.string(),
        "user": pa.int64(),
        "priority": pa.int32(),
        "vip": pa.bool_(),
    }
)

_ROUTES: Final = (
    "/", "/search", "/product", "/cart", "/checkout", "/api/v1/prices", "/api/v1/stock", "/api/v2/feed",
    "/login", "/logout", "/account", "/orders", "/orders/track", "/help", "/help/contact", "/offers",
    "/img/thumb", "/img/full", "/reviews", "/wishlist", "/stores", "/api/v1/geo", "/api/v2/suggest",
    "/metrics",
)  # fmt: skip
_WORDS: Final = (
    "shoes",
    "lamp",
    "tent",
    "desk",
    "coat",
    "bike",
    "mug",
    "rug",
    "phone",
    "drill",
    "kite",
    "pan",
)
_AGENTS: Final = (
    "Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64) Chrome/126.0",
    "Mozilla/5.0 (Macintosh; Intel) Safari/17.5",
    "Mozilla/5.0 (iPhone; CPU OS 17_5) Mobile/15E148",
    "Mozilla/5.0 (Android 14; Mobile) Chrome/126.0",
    "ShopApp/6.2.1 (Android 14)",
)
# Country, latitude and longitude of its middle: a request comes from within two degrees of it.
_COUNTRIES: Final = (
    ("US", 39.8, -98.6), ("DE", 51.2, 10.4), ("IN", 22.4, 78.9), ("BR", -10.8, -52.9), ("GB", 54.0, -2.5),
    ("FR", 46.6, 2.4), ("JP", 36.6, 138.0), ("NG", 9.6, 8.1), ("AU", -25.7, 134.5), ("MX", 23.9, -102.5),
)  # fmt: skip
_STATUS: Final = (200, 200, 200, 200, 200, 200, 200, 204, 206, 301, 302, 304, 304, 400, 404, 503)


def web_requests(first: int, rows: int) -> pa.Table:
    """Return rows ``first`` to ``first + rows``; without a copy, save for the numbers in ``id``."""
    blocks = range(first // BLOCK_ROWS, -(-(first + rows) // BLOCK_ROWS))
    table = pa.concat_tables([_block(number % (POOL_ROWS // BLOCK_ROWS)) for number in blocks] or [_block(0)])
    table = table.slice(first % BLOCK_ROWS, rows)
    return table.add_column(0, SCHEMA.field("id"), pa.array(np.arange(first, first + rows)))


@cache
def _block(number: int) -> pa.Table:
    """Return one block of the distinct events, every column but ``id``; made once in each process."""
    rows = np.arange(number * BLOCK_ROWS, (number + 1) * BLOCK_ROWS, dtype=np.uint64)
    below = partial(_below, rows)
    route = below(1, len(_ROUTES), skew=2)
    user = 100_000 + below(2, 20_000, skew=3)
    priority = 1 + below(3, 5, skew=4)
    vip = below(4, 50) == 0
    country = below(5, len(_COUNTRIES), skew=2)
    lat = np.array([place[1] for place in _COUNTRIES])[country] + below(6, 40_000) / 10_000 - 2
    lon = np.array([place[2] for place in _COUNTRIES])[country] + below(7, 40_000) / 10_000 - 2
    fields = zip(
        map(_AGENTS.__getitem__, below(8, len(_AGENTS))),
        map(_ROUTES.__getitem__, route),
        map(_WORDS.__getitem__, below(9, len(_WORDS))),
        below(10, 40, skew=3).tolist(),
        below(11, 1 << 24).tolist(),
        _hash(rows, 12).tolist(),
        (2_000 + below(13, 30_000) + below(14, 900_000, skew=8)).tolist(),
        map(_STATUS.__getitem__, below(15, len(_STATUS))),
        (_COUNTRIES[place][0] for place in country),
        lat.tolist(),
        lon.tolist(),
        priority.tolist(),
        below(16, 90_000, skew=4).tolist(),
        strict=True,
    )
    payload = [
        f'{{"agent":"{agent}","url":"{path}?q={word}&page={page}",'
        f'"ip":"10.{ip >> 16}.{ip >> 8 & 255}.{ip & 255}","session":"{session:016x}",'
        f'"latency_ms":{micros / 1000:.1f},"status":{status},"country":"{code}",'
        f'"lat":{north:.4f},"lon":{east:.4f},"priority":{tier},"bytes":{sent}}}'
        for agent, path, word, page, ip, session, micros, status, code, north, east, tier, sent in fields
    ]
    routes = pa.array(_ROUTES).take(pa.array(route))
    columns = [pa.array(payload), routes, pa.array(user), pa.array(priority.astype(np.int32)), pa.array(vip)]
    return pa.table(columns, schema=SCHEMA.remove(0))


def _hash(rows: npt.NDArray[np.uint64], field: int) -> npt.NDArray[np.uint64]:
    """Return 64 well-mixed bits for each event (the finalizer of SplitMix64), independent for each field."""
    bits = (rows + np.uint64(field * POOL_ROWS + 1)) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _below(rows: npt.NDArray[np.uint64], field: int, bound: int, *, skew: int = 1) -> npt.NDArray[np.int64]:
    """Return a number from 0 to ``bound - 1`` for each event; P(x < X) = (X / bound)^(1 / skew)."""
    uniform = (_hash(rows, field) >> np.uint64(11)) * 2.0**-53
    power = uniform
    for _ in range(skew - 1):
        power = power * uniform
    return (power * bound).astype(np.int64)
