"""Compile the analysis while the training is still running, on the second core.

Numba compiles a kernel on its first use and keeps the result on disk. A helper process that uses
the analysis kernels once lets the main process find them compiled when it gets there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def compiling_analysis() -> Iterator[None]:
    """Let a helper process compile the analysis kernels until the block ends."""
    if (os.cpu_count() or 1) < 2:
        yield
        return
    helper = subprocess.Popen(
        [sys.executable, "-c", "from foretell.app.warmup import use_analysis; use_analysis()"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        helper.terminate()
        helper.wait()


def use_analysis() -> None:
    """Use every analysis kernel once, on the piecewise-linear FitzHugh-Nagumo system."""
    from foretell.data.systems import pl_fitzhugh_nagumo_field
    from foretell.solve.piecewise import PiecewiseLinearField, limit_cycles, lyapunov_spectrum

    field = PiecewiseLinearField(**pl_fitzhugh_nagumo_field())
    limit_cycles(field)
    lyapunov_spectrum(field, [0.1] * field.n_units, 10.0, transient=1.0)
