"""Student's t as a polynomial, against the exact quantiles of the core."""

from __future__ import annotations

import numpy as np
import pytest

from spillway.core.groups.student import t_quantile
from spillway.estimate.student import coefficients, horner

DOF = np.concatenate([np.linspace(1.0, 30.0, 600), np.geomspace(30.0, 1e12, 60)])


@pytest.mark.parametrize(
    ("level", "error"), [(0.5, 1e-7), (0.8, 1e-7), (0.95, 1e-7), (0.99, 1e-5), (0.999, 1e-5), (0.99999, 0.01)]
)
def test_the_polynomial_is_close_for_all_degrees_of_freedom(level: float, error: float) -> None:
    found = np.exp([horner(coefficients(level), float(1.0 / nu)) for nu in DOF])
    assert np.abs(found / t_quantile(level, DOF) - 1.0).max() < error
