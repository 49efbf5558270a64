"""Analyse a known piecewise-linear field without simulating it to death.

The field is a neuron model in three linear pieces (McKean's caricature of FitzHugh-Nagumo). Its
equilibrium, limit cycle, Floquet multipliers and phase response are solved for to rounding error.
"""

import numpy as np

from foretell.data.systems import pl_fitzhugh_nagumo_field
from foretell.solve.piecewise import (
    PiecewiseLinearField,
    equilibria,
    flow,
    limit_cycles,
    phase_response,
)

field = PiecewiseLinearField(**pl_fitzhugh_nagumo_field())

for point in equilibria(field):
    print(point)

(cycle,) = [c for c in limit_cycles(field, [[0.0, 0.0, -0.125, -0.625]]) if c.stable]
print(cycle)
print("Floquet multipliers", np.round(cycle.multipliers, 6))

# The same cycle by brute force: after one period the exact flow is back where it started.
back = flow(field, cycle.state, [0.0, cycle.period])
print(f"distance after one period {np.abs(back.states[-1] - cycle.state).max():.1e}")
print("regions crossed at", np.round(back.events.times, 4))

# How much a small kick of the voltage advances the phase.
response = phase_response(field, cycle, n=8)
for phase, advance in zip(response.phases, response.curve[:, 0], strict=True):
    print(f"phase {phase:5.3f} rad: {advance:+8.3f} rad per unit of v")
