"""Pole placement: the closed loop has the poles that were asked for, and settles as designed."""

from __future__ import annotations

import cmath
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.core.control import PoleDesign
from spillway.errors import SpillwayError

_real = st.tuples(st.floats(-0.95, 0.95), st.floats(-0.95, 0.95))
_pair = st.builds(cmath.rect, st.floats(0.05, 0.95), st.floats(0.05, 3.0)).map(lambda p: (p, p.conjugate()))


@st.composite
def designs(draw: st.DrawFn) -> PoleDesign:
    """Any stable poles, and any controller pole that leaves b0 above 0."""
    poles = draw(_real | _pair)
    least = max(sum(complex(p).real for p in poles) - 1.0, -1.0)
    return PoleDesign(poles=poles, controller_pole=1.0 - draw(st.floats(0.0, 0.99)) * (1.0 - least))


def characteristic(design: PoleDesign) -> np.ndarray:
    """D(z) A(z) + N(z) B(z), multiplied out, for plant 1 / (z - 1) and controller (b0 z + b1) / (z + a)."""
    g = design.gains
    return np.polyadd(np.polymul([1.0, -1.0], [1.0, g.a]), [g.b0, g.b1])


@given(design=designs())
def test_the_closed_loop_has_the_poles_asked_for(design):
    poles = design.poles
    wanted = np.real_if_close(np.poly(poles), tol=1e6)
    assert characteristic(design) == pytest.approx(wanted, abs=1e-12)
    found = sorted(np.roots(characteristic(design)), key=lambda p: (p.real, p.imag))
    for root, pole in zip(found, sorted(map(complex, poles), key=lambda p: (p.real, p.imag)), strict=True):
        assert abs(root - pole) < 1e-5  # a double root is only known to the square root of the precision


@given(design=designs())
def test_equation_19_holds_for_every_member_of_the_family(design):
    g = design.gains
    assert g.b0 + g.b1 == pytest.approx(1.0 + (g.a - 1.0 + g.b0) + (g.b1 - g.a), abs=1e-12)


def test_the_papers_gains_are_a_member():
    g = PoleDesign(poles=(0.7, 0.7), controller_pole=0.8).gains
    assert (g.b0, g.b1, g.a) == pytest.approx((0.4, -0.31, -0.8))
    assert PoleDesign().gains == g


def test_a_controller_pole_on_the_double_pole_is_a_proportional_law():
    g = PoleDesign(poles=(0.7, 0.7), controller_pole=0.7).gains
    assert -g.b1 / g.b0 == pytest.approx(0.7)  # its zero cancels its pole
    assert g.b0 == pytest.approx(0.3)


def step_response(design: PoleDesign, periods: int) -> list[float]:
    """y(k) of the loop around an integrator for a target that steps from 0 to 1."""
    g = design.gains
    y = u_last = e_last = 0.0
    out = []
    for _ in range(periods):
        e = 1.0 - y
        u = g.b0 * e + g.b1 * e_last - g.a * u_last
        y, u_last, e_last = y + u, u, e
        out.append(y)
    return out


def test_63_percent_in_three_periods_and_98_in_twelve():
    """Appendix A's promise, held exactly by the member without a zero and closely by the paper's own."""
    for controller_pole in (0.7, 0.8):
        y = step_response(PoleDesign(poles=(0.7, 0.7), controller_pole=controller_pole), 200)
        assert y[2] >= 1.0 - 1.0 / math.e
        assert abs(y[11] - 1.0) < 0.1
        assert y[-1] == pytest.approx(1.0, abs=1e-9)
    first_order = step_response(PoleDesign(poles=(0.7, 0.7), controller_pole=0.7), 12)
    assert first_order[2] == pytest.approx(1.0 - 0.7**3)
    assert first_order[11] == pytest.approx(1.0 - 0.7**12)
    assert first_order[11] > 0.98


@given(periods=st.floats(0.5, 20), damping=st.floats(0.05, 3.0))
def test_convergence_and_damping_give_stable_poles(periods, damping):
    design = PoleDesign.from_convergence(periods, damping)
    assert all(abs(p) < 1.0 for p in design.poles)
    assert design.gains.b0 > 0.0
    slowest = max(abs(p) for p in design.poles)
    assert slowest >= math.exp(-1.0 / periods) - 1e-12
    if damping <= 1.0:
        assert slowest == pytest.approx(math.exp(-1.0 / periods))
    else:
        assert all(complex(p).imag == 0.0 for p in design.poles)


def test_low_damping_overshoots_and_full_damping_does_not():
    def overshoot(damping: float) -> float:
        design = PoleDesign.from_convergence(4, damping)
        p = complex(design.poles[0])
        y = step_response(PoleDesign(poles=design.poles, controller_pole=abs(p)), 100)
        return max(y) - 1.0

    assert overshoot(0.3) > overshoot(0.7)
    assert overshoot(1.0) < 1e-9


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"poles": (1.0, 0.5)}, "unit circle"),
        ({"poles": (0.5 + 0.5j, 0.5 + 0.5j)}, "conjugate pair"),
        ({"poles": (0.5 + 0.5j, 0.4 - 0.5j)}, "conjugate pair"),
        ({"poles": (0.5,)}, "two numbers"),
        ({"poles": (math.nan, 0.5)}, "unit circle"),
        ({"poles": ("a", 0.5)}, "unit circle"),
        ({"controller_pole": 1.5}, "controller_pole"),
        ({"controller_pole": -1.0}, "controller_pole"),
        ({"poles": (0.95, 0.95), "controller_pole": 0.8}, "above 0.9"),
    ],
)
def test_unstable_or_impossible_designs_raise(wrong, says):
    with pytest.raises(SpillwayError, match=says):
        PoleDesign(**wrong)


@pytest.mark.parametrize("wrong", [{"periods": 0.0}, {"periods": 3.0, "damping": 0.0}])
def test_convergence_is_checked(wrong):
    with pytest.raises(SpillwayError, match="is not allowed"):
        PoleDesign.from_convergence(**wrong)
