"""Computes the gains from how fast and how smoothly the loop should settle: pole placement (Appendix A).

The engine is an integrator, G(z) = c T / (H (z - 1)), and the controller has one pole of its own,
C(z) = H (b0 z + b1) / (c T (z + a)). The closed loop's characteristic polynomial is then

    z² + (a - 1 + b0) z + (b1 - a)  =  (z - p1)(z - p2)                                  (Eq. 17, 18)

which gives two equations for three unknowns:

    b0 = 1 - a - (p1 + p2)          b1 = a + p1 p2

The paper's third equation, a static gain of one (Eq. 19), adds nothing: with b0 and b1 as above it holds
for every a, because with an integrator in the loop any controller tracks a constant exactly. So one
parameter stays free. We take the controller's own pole, -a, as that parameter. It does not move the closed
loop's poles; it moves the loop's zero, -b1/b0, and so decides how strongly the controller reacts at first:

=====================  =====================================================================================
controller pole (-a)   result, for a double pole p
=====================  =====================================================================================
p                      the zero cancels one pole: u = (1 - p) H e / (c T), a plain proportional law
0.8, with p = 0.7      the paper's set: b0 = 0.4, b1 = -0.31, a = -0.8
1                      an integrator of its own: no steady error under a constant disturbance, but it winds up
p1 + p2 - 1 or less    b0 is not above 0: the controller first reacts the wrong way, and as the number of
                       admitted rows cannot be negative, the loop may not settle. The design is refused
=====================  =====================================================================================

>>> design = PoleDesign(poles=(0.7, 0.7), controller_pole=0.8)
>>> gains = design.gains
>>> round(gains.b0, 12), round(gains.b1, 12), round(gains.a, 12)
(0.4, -0.31, -0.8)
"""

from __future__ import annotations

import cmath
import math
from dataclasses import dataclass
from typing import Self

from spillway.core.checks import require_number
from spillway.errors import invalid


@dataclass(frozen=True, slots=True)
class Gains:
    """The parameters of u(k) = H/(cT) [b0 e(k) + b1 e(k-1)] - a u(k-1) (Eq. 10)."""

    a: float
    b0: float
    b1: float


@dataclass(frozen=True)
class PoleDesign:
    """The poles that the closed loop shall have, and the pole of the controller.

    ``poles`` are two real numbers or a conjugate pair inside the unit circle; poles nearer to 0 are faster and
    need more shedding at once. ``controller_pole`` is the free parameter of the design, above -1 and at most 1.
    """

    poles: tuple[complex, complex] = (0.7, 0.7)
    controller_pole: float = 0.8

    def __post_init__(self) -> None:
        if not isinstance(self.poles, tuple) or len(self.poles) != 2:
            raise invalid("poles", self.poles, "two numbers", hint="the paper's are (0.7, 0.7)")
        for pole in self.poles:
            if not isinstance(pole, int | float | complex) or not abs(pole) < 1.0:
                raise invalid(
                    "poles", self.poles, "numbers inside the unit circle", hint="else the loop is unstable"
                )
        p1, p2 = (complex(pole) for pole in self.poles)
        if not math.isclose(p1.imag, -p2.imag, abs_tol=1e-12) or (
            p1.imag != 0.0 and not math.isclose(p1.real, p2.real, abs_tol=1e-12)
        ):
            raise invalid("poles", self.poles, "two real numbers or a conjugate pair")
        require_number("controller_pole", self.controller_pole, -1.0, 1.0, above=True)
        least = (p1 + p2).real - 1.0
        if self.controller_pole <= least:
            hint = "else b0 is not above 0 and the controller reacts the wrong way at first"
            raise invalid(
                "controller_pole", self.controller_pole, f"a number above {least:g} and <= 1", hint=hint
            )

    @classmethod
    def from_convergence(
        cls, periods: float, damping: float = 1.0, *, controller_pole: float | None = None
    ) -> Self:
        """Place the poles so that the loop covers 63 % of the way within ``periods`` periods.

        Damping below 1 gives a conjugate pair whose envelope shrinks by 1/e in that time; damping of 1 a double
        real pole at exp(-1/periods) (the paper rounds 0.717 to 0.7); damping above 1 two real poles, the slower
        one slower than requested. The controller's own pole is the paper's 0.8, or midway between the others if
        that is larger.

        >>> [round(pole.real, 3) for pole in PoleDesign.from_convergence(3).poles]
        [0.717, 0.717]
        """
        require_number("periods", periods, 0.0, above=True, hint="the paper's choice is 3")
        require_number("damping", damping, 0.0, above=True, hint="0.7 to 1 is usual, below 0.7 it oscillates")
        p1: complex
        p2: complex
        if damping < 1.0:
            turn = math.sqrt(1.0 - damping**2) / (damping * periods)
            p1 = cmath.rect(math.exp(-1.0 / periods), turn)
            p2 = p1.conjugate()
        else:
            spread = math.sqrt(damping**2 - 1.0)
            p1 = math.exp(-(damping + spread) / periods)
            p2 = math.exp(-(damping - spread) / periods)
        own = max(0.8, 0.5 * (p1 + p2).real) if controller_pole is None else controller_pole
        return cls(poles=(p1, p2), controller_pole=own)

    @property
    def gains(self) -> Gains:
        """Solve Eq. 18 for the gains."""
        p1, p2 = (complex(pole) for pole in self.poles)
        a = -self.controller_pole
        return Gains(a=a, b0=1.0 - a - (p1 + p2).real, b1=a + (p1 * p2).real)
