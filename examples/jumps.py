"""Follow a system with resets exactly, and differentiate through its jumps.

A ball bounces and loses a fifth of its speed each time. The derivative of its state after four
bounces with respect to the start needs the saltation matrix: a start a little higher also moves the
moments of impact.
"""

import numpy as np

from foretell.solve.piecewise import bouncing_ball

ball = bouncing_ball(restitution=0.8, gravity=9.81)
start, duration = np.array([1.0, 0.0]), 2.5

run = ball.simulate(start, [0.0, duration])
print("impacts at", np.round(run.jumps.times, 6), "s")

exact = ball.jacobian(start, duration).jacobian
step = 1e-6
differences = np.column_stack(
    [
        (
            ball.simulate(start + step * e, [0.0, duration]).states[-1]
            - ball.simulate(start - step * e, [0.0, duration]).states[-1]
        )
        / (2 * step)
        for e in np.eye(2)
    ]
)
naive = ball.jacobian(start, duration, saltation=False).jacobian
print("derivative\n", exact.round(6))
print(f"against differences {np.abs(exact - differences).max():.1e}")
print(f"without the saltation matrix it would be wrong by {np.abs(naive - exact).max():.2f}")
