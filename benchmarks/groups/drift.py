"""Figure 2: how far the concept of a window is from that of the window before.

Two measures of two things. Of the *concept*, which is what shedding goes by (Table II): the overlap of the groups and
the distance of their frequencies, or of mean and variance where there are no groups. And of the *result*, as the
paper's figure has it: the ten groups with the largest means, their common share and the share that changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.groups.windows import Stream, Window
from benchmarks.results import Figure
from spillway.core.groups.paper.concepts import Concept, Drift, Frequencies, Moments, drift, result_drift, top
from spillway.report.plots import CYCLE, panels, save

TOP = 10


def concept_of(stream: Stream, window: Window) -> Concept:
    """Return the concept of a window, by the kind of the stream's query."""
    if stream.data.scalar:
        return Moments.of(window.table["value"].to_numpy())
    return Frequencies(dict(zip(window.groups.tolist(), window.sizes.tolist(), strict=True)))


def concept_drift(stream: Stream) -> Drift:
    """Return the drift of the concepts between windows that follow each other."""
    return _joined([drift([concept_of(stream, window) for window in run]) for run in runs(stream)])


def top_drift(stream: Stream) -> Drift | None:
    """Return the drift of the top ten groups, None where windows have not many more groups than that."""
    if np.median([len(window.groups) for window in stream.windows]) < 2 * TOP:
        return None
    tops = [
        [
            top(dict(zip(window.groups.tolist(), window.truth.tolist(), strict=True)), TOP)
            for window in windows
        ]
        for windows in runs(stream)
    ]
    return _joined([result_drift(sets) for sets in tops])


def runs(stream: Stream) -> list[list[Window]]:
    """Return the windows in runs without a gap."""
    found: list[list[Window]] = []
    for span in stream.spans:
        found.append([span[0]])
        for one, other in pairwise(span):
            if round((other.start_s - one.start_s) / stream.data.slide_s) > 1:
                found.append([])
            found[-1].append(other)
    return found


def figure_2(streams: Sequence[Stream], out: Path | None) -> Figure:
    """Compare the drift of the streams."""
    numbers: dict[str, dict[str, Any]] = {}
    for stream in streams:
        concept, result = concept_drift(stream), top_drift(stream)
        if concept.distances:
            numbers[stream.name] = _numbers(concept, result)
    tops = {name: of["top_10"] for name, of in numbers.items() if of["top_10"] is not None}
    means = [of["distance"] for of in tops.values()]
    checks = {
        "by_up_to_half_or_more_somewhere": bool(means)
        and max(of["distance_most"] for of in tops.values()) >= 0.5,
        "by_30_percent_on_average_on_debs": "debs" in tops and 0.15 <= tops["debs"]["distance"] <= 0.45,
    }
    if len(means) > 1:
        checks["streams_differ"] = max(means) - min(means) > 0.1
    listed = ", ".join(
        f"{100 * of['distance']:.0f} (at most {100 * of['distance_most']:.0f}) % on {name}"
        for name, of in tops.items()
    )
    distances = ", ".join(f"{of['distance']:.2f} on {name}" for name, of in numbers.items())
    return Figure(
        title="Concept distance and overlap of consecutive windows",
        paper="Recorded streams differ in both; the ten routes with the highest mean fare change by up to 50 % from "
        "one window to the next, and by 30 % on average on DEBS.",
        ours=f"The ten groups with the highest means change by {listed}. The distance of the groups' frequencies (of "
        f"mean and variance where there are no groups) is {distances}.",
        holds=all(checks.values()),
        numbers={"checks": checks, **numbers},
        files=_draw(numbers, out) if out is not None else [],
    )


def _numbers(concept: Drift, result: Drift | None) -> dict[str, Any]:
    return {
        "pairs": len(concept.distances),
        "distance": concept.distance,
        "overlap": concept.overlap,
        "top_10": None
        if result is None
        else {
            "distance": result.distance,
            "distance_most": max(result.distances),
            "overlap": result.overlap,
        },
    }


def _joined(parts: Sequence[Drift]) -> Drift:
    overlaps = [value for part in parts for value in part.overlaps]
    return Drift(tuple(overlaps), tuple(value for part in parts for value in part.distances))


def _draw(numbers: dict[str, dict[str, Any]], out: Path) -> list[str]:
    places = np.arange(len(numbers))
    with panels(1, 2, width=10.0, height=3.2) as (figure, axes):
        for axis, measure in zip(axes, ("distance", "overlap"), strict=True):
            concepts = [of[measure] for of in numbers.values()]
            tops = [of["top_10"][measure] if of["top_10"] else np.nan for of in numbers.values()]
            axis.bar(places - 0.2, concepts, 0.38, color=CYCLE[0], label="concept")
            axis.bar(places + 0.2, tops, 0.38, color=CYCLE[1], label="top ten of the result")
            axis.set(title=measure, xticks=places, ylim=(0.0, 1.0))
            axis.set_xticklabels(list(numbers), rotation=30, ha="right")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        return save(figure, out, "groups-2-drift")
