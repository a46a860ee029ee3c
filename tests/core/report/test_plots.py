"""Plots: the same figure gives the same files, and the style is gone with it."""

from __future__ import annotations

import builtins

import pytest

from spillway.errors import SpillwayError
from spillway.report.plots import COLOURS, panels, save, save_as


def draw(folder):
    with panels(1, 2) as (figure, (left, right)):
        left.plot([0, 1, 2], [3, 1, 2], color=COLOURS["ctrl"], label="ctrl")
        right.bar([0, 1], [2, 1])
        left.legend()
        return save(figure, folder, "plot")


def test_the_same_figure_gives_the_same_files(tmp_path):
    assert draw(tmp_path / "a") == draw(tmp_path / "b") == ["plot.png", "plot.svg"]
    for name in ("plot.png", "plot.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_the_style_ends_with_the_figure(tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    draw(tmp_path)
    assert dict(matplotlib.rcParams) == before


def test_an_unknown_format_or_place_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with panels(1, 1) as (figure, _):
        with pytest.raises(SpillwayError, match=r"ends in \.png or \.svg"):
            save_as(figure, tmp_path / "plot.bmp")
        with pytest.raises(SpillwayError, match="cannot be written"):
            save_as(figure, tmp_path / "file" / "plot.png")


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SpillwayError, match=r"spillway-spark\[tools\]"), panels(1, 1):
        pass
