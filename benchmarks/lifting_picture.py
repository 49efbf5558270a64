"""Draw docs/images/lifting.png: an ensemble of a lifted model beside the school of fish."""

import warnings
from pathlib import Path

import numpy as np
from _common import left_out
from lifting_fish import METHODS, in_disc, parts, recording
from matplotlib.figure import Figure

from foretell.core import ForetellWarning
from foretell.dynamics.lifting import StochasticLifting
from foretell.dynamics.lifting.plots import (
    plot_fan,
    plot_interpolation,
    plot_ranks,
    plot_spread_skill,
)

OUT = Path(__file__).resolve().parent.parent / "docs" / "images" / "lifting.png"
STEP, LEAD, SHOWN = 0.24, 40, 3


def main() -> None:
    if recording() is None:
        left_out("the recording of pydaddy is not here: pip install --no-deps pydaddy")
    train, test = parts(2)
    model = StochasticLifting(**METHODS["lifting, in pairs"][1], random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForetellWarning)
        model.fit(train)
    first = np.arange(0, len(test) - LEAD - 1, LEAD + 1)
    observed = np.array([test[k : k + LEAD + 1] for k in first])
    runs = model.rollout(test[first], LEAD, 60, 0, project=in_disc)
    figure = Figure(figsize=(10.0, 6.6), layout="constrained")
    (a, b), (c, d) = figure.subplots(2, 2)
    times = STEP * np.arange(LEAD + 1)
    plot_fan(times, runs[SHOWN, :, :, 0], observed[SHOWN, :, 0], axes=a)
    a.set_title("one held-out start, first component")
    ahead = {f"{k * STEP:.1f} s ahead": (runs[:, :, k], observed[:, k]) for k in (1, 10, 40)}
    plot_ranks(ahead, axes=b)
    plot_spread_skill(times, runs, observed, axes=c)
    plot_interpolation(model, axes=d)
    for axes in (a, c):
        axes.set_xlabel("lead time [s]")
    figure.savefig(OUT, dpi=110)
    print(f"wrote {OUT.name}")


if __name__ == "__main__":
    main()
