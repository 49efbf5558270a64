"""The page about decoders on somebody's own vectors: recall against candidates, and a table."""

from __future__ import annotations

from importlib.metadata import version
from importlib.resources import files

import numpy as np

from foretell.app.command_find_compare import Comparison, best_words
from foretell.app.report.plot import Plot
from foretell.app.report.tables import Table
from foretell.app.report.templates import templates
from foretell.app.words import number

_KINDS = {"hamming": 1, "linear": 0, "llr": 3, "decorrelated": 2, "mle": 7}


def render_comparison(found: Comparison) -> str:
    """The page as one self-contained HTML text."""
    from markupsafe import Markup

    folder = files("foretell.app.report")
    environment = templates()
    table = environment.get_template("table.html.j2").render(title="", block=_table(found))
    return environment.get_template("compare.html.j2").render(
        title=f"What the bits of {found.source} can find",
        version=version("foretell"),
        lead=best_words(found),
        facts=_facts(found),
        figure=Markup(recall_figure(found)),
        table=Markup(table),
        notes=found.notes,
        caption=_caption(found),
        style=Markup((folder / "style.css").read_text(encoding="utf-8")),
        script=Markup((folder / "script.js").read_text(encoding="utf-8")),
    )


def recall_figure(found: Comparison) -> str:
    """Recall against the number of candidates; codes of a second kind are drawn thick and pale."""
    worst = max(row.budget[0] for row in found.rows)
    last = float(min(found.n, max(4 * worst, 10 * found.k)))
    shown = found.budgets <= last
    lowest = min(float(row.recall[shown].min()) for row in found.rows)
    plot = Plot(
        (float(found.k), last),
        (max(0.0, np.floor(10 * lowest) / 10), 1.0),
        x_label="candidates",
        y_label=f"share of the {found.k} nearest among them",
        title="Recall against the number of candidates, by decoder",
        height=380,
        log_x=True,
    )
    plot.level(0.95, "muted")
    first = found.rows[0].projection
    for row in sorted(found.rows, key=lambda row: row.projection == first):  # thick ones below
        if row.decoder == "normalized":  # the same ranking as linear
            continue
        kind = f"region-{_KINDS[row.decoder]}" + ("" if row.projection == first else " wide")
        plot.line(found.budgets[shown], row.recall[shown], kind, row.name)
    return plot.html()


def _caption(found: Comparison) -> str:
    said = (
        "Candidates are the vectors with the highest scores by their bits; each of them is to be "
        "read and compared exactly. The further to the left, the fewer."
    )
    kinds = list(dict.fromkeys(row.projection for row in found.rows))
    return said if len(kinds) == 1 else f"{said} Thick and pale: {kinds[1]} codes."


def _table(found: Comparison) -> Table:
    rows = []
    for row in found.rows:
        middle, low, high = (number(float(n), 9) for n in row.budget)
        rows.append(
            (
                row.name,
                f"{middle} [{low}, {high}]",
                number(row.error),
                number(row.near_error),
                f"{100 * row.covered:.1f}\u00a0%",
            )
        )
    columns = (
        ("codes, decoder", "w"),
        ("candidates for 95\u00a0% recall", "n"),
        ("error of the cosine", "n"),
        ("of the nearest", "n"),
        ("within two standard errors", "n"),
    )
    return Table(
        columns,
        tuple(rows),
        note="Intervals are 95\u00a0% over queries. Errors are root mean squares, of vectors drawn "
        "at random and of the true neighbours; a small error is not a good ranking. Ties count as "
        "broken by lot.",
        style="stack",
    )


def _facts(found: Comparison) -> list[dict[str, str]]:
    low, middle, high = found.nearest
    per = 4 * found.dimension / (found.bits / 8)
    facts = [
        ("Vectors", number(float(found.n), 9), f"of {found.dimension} dimensions"),
        ("Bits", number(float(found.bits), 9), f"a vector; {per:.0f} times less than float32"),
        ("Queries", number(float(found.n_queries), 9), f"each with its {found.k} nearest"),
        ("Cosine of the nearest", f"{middle:.2f}", f"10\u00a0% below {low:.2f}, above {high:.2f}"),
    ]
    return [dict(zip(("name", "value", "note"), fact, strict=True)) for fact in facts]
