"""Random piecewise-linear fields, and a slow flow written independently of the package."""

import numpy as np
from scipy.linalg import expm
from scipy.optimize import brentq

from foretell.solve.piecewise import PiecewiseLinearField


def random_field(seed, n_units=None, n_relu=None, n_inputs=0, gain=1.0):
    """A field whose orbits stay moderate over a few time units, and a start."""
    rng = np.random.default_rng(seed)
    M = int(rng.integers(1, 9)) if n_units is None else n_units
    P = int(rng.integers(0, M + 1)) if n_relu is None else n_relu
    field = PiecewiseLinearField(
        A=-rng.uniform(0.2, 1.5, M),
        W=gain * rng.normal(size=(M, M)) / np.sqrt(M),
        h=rng.normal(size=M),
        n_relu=P,
        C=rng.normal(size=(M, n_inputs)) if n_inputs else None,
    )
    return field, rng.normal(size=M)


def fitzhugh_nagumo(a=0.25, eps=0.2, gam=0.5, current=0.5):
    """Three-piece FitzHugh-Nagumo with units v, w, v - a / 2, v - (1 + a) / 2, and a start."""
    W = np.zeros((4, 4))
    W[[0, 2, 3]] = [-1.0, -1.0, 2.0, -2.0]
    W[1, 0] = eps
    field = PiecewiseLinearField(
        A=[0.0, -eps * gam, 0.0, 0.0], W=W, h=[current, 0.0, current, current], n_relu=2
    )
    return field, np.array([0.0, 0.0, -a / 2, -(1 + a) / 2])


def exact_map(field, code, duration, control=None):
    """The augmented exponential of one region, (M + 1, M + 1)."""
    M = field.n_units
    generator = np.zeros((M + 1, M + 1))
    generator[:M, :M], generator[:M, M] = field.matrix(code), field.drive(control)
    return expm(generator * duration)


def slow_flow(field, z0, end, scan=0.01):
    """State at `end` and crossing times by matrix exponentials, a dense scan and Brent's method."""
    first, t, z = field.n_units - field.n_relu, 0.0, np.asarray(z0, dtype=float)
    code, crossings = field.code(z), []
    while t < end:
        fine = min(scan, end - t)
        step = exact_map(field, code, fine)
        ahead = (step @ np.append(z, 1.0))[:-1]
        changed = np.flatnonzero((field.code(ahead) != code) & (np.abs(ahead[first:]) > 1e-13))
        if changed.size == 0:
            t, z = t + fine, ahead
            continue

        def value(s, p, z=z, code=code):
            return (exact_map(field, code, s) @ np.append(z, 1.0))[first + p]

        roots = [
            brentq(value, 1e-12, fine, args=(p,), xtol=1e-15)
            if value(1e-12, p) * value(fine, p) < 0
            else 1e-12
            for p in changed
        ]
        p = int(np.argmin(roots))
        z = (exact_map(field, code, roots[p]) @ np.append(z, 1.0))[:-1]
        z[first + changed[p]] = 0.0
        t += roots[p]
        code = code.copy()
        code[changed[p]] ^= True
        crossings.append(t)
    return z, np.array(crossings)


def central_difference(function, x, step=1e-6):
    """d function / d x by central differences, shape function.shape + x.shape."""
    x = np.asarray(x, dtype=float)
    columns = []
    for index in np.ndindex(x.shape):
        shift = np.zeros_like(x)
        shift[index] = step
        columns.append((np.asarray(function(x + shift)) - function(x - shift)) / (2 * step))
    return np.stack(columns, axis=-1).reshape(*np.shape(columns[0]), *x.shape)
