"""The table of methods: the command line's only registry."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Method:
    """One method: its name on the command line, its class, its page, and what it is."""

    name: str
    public: str
    docs: str
    summary: str


METHODS = (
    Method(
        "cplrnn",
        "foretell.CPLRNN",
        "docs/methods/cplrnn.md",
        "continuous-time piecewise-linear RNN; irregular stamps, exact analysis",
    ),
    Method(
        "alrnn",
        "foretell.ALRNN",
        "docs/methods/cplrnn.md",
        "discrete almost-linear RNN; a reference for even stamps",
    ),
    Method(
        "neural-ode",
        "foretell.ReLUNeuralODE",
        "docs/methods/cplrnn.md",
        "the same vector field integrated by RK4; a reference",
    ),
    Method(
        "edmdc",
        "foretell.EDMDc",
        "docs/methods/qpko.md",
        "linear model in fixed observables, with inputs; one regression",
    ),
    Method(
        "koopman",
        "foretell.KoopmanQP",
        "docs/methods/qpko.md",
        "linear model in trained observables, with inputs; for control",
    ),
    Method(
        "hybrid",
        "foretell.HybridLatentODE",
        "docs/methods/hybrid-latent-ode.md",
        "latent flow of a system that jumps; events, guards and resets read out",
    ),
    Method(
        "analogue",
        "foretell.AnalogueTransition",
        "docs/methods/stochastic-lifting.md",
        "goes on as similar recorded states did; draws at random",
    ),
    Method(
        "gaussian",
        "foretell.GaussianTransition",
        "docs/methods/stochastic-lifting.md",
        "network for mean and spread of the next state; draws at random",
    ),
    Method(
        "lifting",
        "foretell.StochasticLifting",
        "docs/methods/stochastic-lifting.md",
        "sampler of the next state in one evaluation, by stochastic lifting",
    ),
)


def show_methods() -> None:
    """Print the table."""
    import typer

    wide = [max(len(row) for row in column) for column in zip(*map(_cells, METHODS), strict=True)]
    for method in METHODS:
        name, public, docs = (text.ljust(n) for text, n in zip(_cells(method), wide, strict=True))
        typer.echo(f"{name}  {public}  {docs.rstrip()}")
        typer.echo(f"{'':{wide[0]}}  {method.summary}")


def _cells(method: Method) -> tuple[str, str, str]:
    return method.name, method.public, method.docs
