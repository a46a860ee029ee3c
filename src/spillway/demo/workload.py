"""The query of the demo and the Spark benchmark: what a team that runs a web service does with its raw events.

::

    raw event -> parse JSON -> route, search word, page     from the URL
                            -> device                       from the user agent
                            -> visitor, network             pseudonyms of session and address
                            -> distance                     to the nearest data centre
                            -> score                        how likely the request was a bad experience
              -> per route, device and experiment arm: requests, bytes, latency, distance, score

Everything is Spark's own expressions, and all of it is needed for the result: the experiment arm follows from
the visitor's pseudonym, the audited share from the network's. Most of the time goes into the pseudonyms, which
are salted and stretched by hashing them again and again as one does with small key spaces such as IPv4
addresses, then into JSON, trigonometry and regular expressions. A row takes 20 to 40 µs of one core.

The clients of the service log only one in four requests of the lowest priority, so a row stands for one request or
for four. Where Spillway has shed rows, their weight (one over the chance of having been kept) comes on top, and the
aggregates are estimates of what they would have been had nothing been shed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

EVENT: Final = (
    "agent string, url string, ip string, session string, latency_ms double, status int, country string, "
    "lat double, lon double, priority int, bytes bigint"
)
"""The fields of an event's JSON payload."""

STRETCH_ROUNDS: Final = 16
"""How often a pseudonym is hashed: trying out all addresses takes that many times longer."""

DATA_CENTRES: Final = {
    "iad": (38.9, -77.4),
    "fra": (50.0, 8.6),
    "bom": (19.1, 72.9),
    "gru": (-23.4, -46.5),
    "nrt": (35.8, 140.4),
}
"""Latitude and longitude of each place that could have answered."""

_SALT: Final = "c0ffee"
_EARTH_KM: Final = 6371.0
_DEVICES: Final = {
    "app": r"^\w+App/[\d.]+",
    "phone": r"(iPhone|Android).*Mobile|Mobile/\w+",
    "mac": r"Macintosh|Mac OS X",
    "windows": r"Windows NT [\d.]+",
    "linux": r"(X11|Linux)",
}


def per_route(events: DataFrame) -> DataFrame:
    """Return the running totals per route, device and experiment arm; weighted where there are weights."""
    weight = F.col("weight") if "weight" in events.columns else F.lit(1.0)
    rows = enrich(events.withColumn("weight", weight), "weight").withColumn(
        "weight", F.col("weight") * _stands_for()
    )

    def mean(column: str) -> Column:
        return (F.sum(F.col(column) * F.col("weight")) / F.sum("weight")).alias(f"mean_{column}")

    return rows.groupBy("path", "device", "arm").agg(
        F.sum("weight").alias("requests"),
        F.sum(F.col("bytes") * F.col("weight")).alias("bytes"),
        F.sum(F.when(F.col("searched"), F.col("weight")).otherwise(0.0)).alias("searches"),
        F.sum(F.when(F.col("audited"), F.col("weight")).otherwise(0.0)).alias("audited"),
        mean("latency_ms"),
        mean("distance_km"),
        mean("score"),
    )


def enrich(events: DataFrame, *keep: str) -> DataFrame:
    """Return the events taken apart, pseudonymised, placed and scored, with further columns as they are."""
    parsed = events.select(F.from_json("payload", EVENT).alias("event"), *keep).select("event.*", *keep)
    word = F.regexp_extract("url", r"[?&]q=([^&#]*)", 1)
    page = F.regexp_extract("url", r"[?&]page=(\d+)", 1).cast("int")
    return (
        parsed.withColumn("path", F.regexp_extract("url", r"^([^?#]*)", 1))
        .withColumn("searched", (F.length(word) > 0) & (page < 10))
        .withColumn("device", _device(F.col("agent")))
        .withColumn("visitor", pseudonym(F.concat_ws("|", "session", "agent")))
        .withColumn("network", pseudonym(F.col("ip")))
        .withColumn("arm", F.conv(F.substring("visitor", 1, 2), 16, 10).cast("int") % 2)
        .withColumn("audited", F.startswith("network", F.lit("00")))
        .withColumn("distance_km", F.least(*[_distance_km(*place) for place in DATA_CENTRES.values()]))
        .withColumn("score", _score())
    )


def pseudonym(of: Column) -> Column:
    """Return a salted, stretched SHA-512 that stands for a value and cannot be turned back by trying."""
    digest = F.sha2(F.concat(F.lit(_SALT), of), 512)
    for _ in range(STRETCH_ROUNDS - 1):
        digest = F.sha2(F.concat(F.lit(_SALT), digest), 512)
    return digest


def _stands_for() -> Column:
    """Return how many requests a logged one stands for."""
    return F.when(F.col("priority") == 1, 4.0).otherwise(1.0)


def _device(agent: Column) -> Column:
    found = F.lit("other")
    for name, pattern in reversed(_DEVICES.items()):
        found = F.when(F.rlike(agent, F.lit(pattern)), F.lit(name)).otherwise(found)
    return found


def _distance_km(lat: float, lon: float) -> Column:
    """Return the great-circle distance to a place, by the haversine formula."""
    half_lat = F.radians(F.col("lat") - lat) / 2
    half_lon = F.radians(F.col("lon") - lon) / 2
    across = F.cos(F.radians("lat")) * F.cos(F.radians(F.lit(lat))) * F.pow(F.sin(half_lon), 2)
    return 2 * _EARTH_KM * F.asin(F.sqrt(F.least(F.lit(1.0), F.pow(F.sin(half_lat), 2) + across)))


def _score() -> Column:
    """Return a logistic score from latency, status and distance."""
    slow = F.log1p(F.col("latency_ms")) - 3.5
    failed = F.when(F.col("status") >= 500, 2.5).when(F.col("status") >= 400, 1.0).otherwise(0.0)
    far = F.col("distance_km") / 4000.0
    return 1.0 / (1.0 + F.exp(-(slow + failed + far - 2.0)))
