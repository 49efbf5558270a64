"""Small plots as inline SVG inside HTML, sharp at any width.

The drawing is an SVG with a fixed 1000 x 1000 box that is stretched over the plot area, with
strokes that do not scale; every word (ticks, labels, legend) is HTML placed by percentages. So text
keeps its size on a phone, and no script is needed to lay a plot out. Colours are classes; the
style sheet defines them for light and dark.

Legend: x and y are data coordinates; u and v run over 0..1000 in the drawing, v downwards.
"""

from __future__ import annotations

import math
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.app.words import number

Array = NDArray[np.float64]

_BOX = 1000.0
_COLUMNS = 600


def nice_ticks(low: float, high: float, count: int = 6) -> list[float]:
    """Round values between ``low`` and ``high``, about ``count`` of them.

    Examples
    --------
    >>> nice_ticks(0.0, 1.0, 5)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return [low]
    rough = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    steps = [m * power for m in (1, 2, 2.5, 5, 10) if m * power != 2.5]  # counts have no halves
    step = min(steps, key=lambda s: abs(math.log(s / rough)))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    decimals = max(0, 2 - math.floor(math.log10(step)))
    return [round(i * step, decimals) + 0.0 for i in range(first, last + 1)]


def nice_decades(low: float, high: float, count: int = 5) -> list[float]:
    """Powers of ten between two positive numbers, thinned to about ``count``.

    Examples
    --------
    >>> nice_decades(0.02, 30.0)
    [0.1, 1.0, 10.0]
    """
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    stride = max(1, math.ceil((last - first + 1) / count))
    return [10.0**k for k in range(first, last + 1, stride)]


def reduce_line(x: Array, y: Array, columns: int = _COLUMNS) -> tuple[Array, Array]:
    """Keep the first, lowest, highest and last point of every pixel column of one line.

    ``x`` must not decrease. Nothing that would be visible is lost, and a long series becomes at
    most ``4 * columns`` points.

    Examples
    --------
    >>> x = np.arange(100_000.0)
    >>> short_x, short_y = reduce_line(x, np.sin(x), columns=100)
    >>> len(short_x) <= 400, float(short_y.max()) > 0.999
    (True, True)
    """
    if x.size <= 2 * columns:
        return x, y
    span = float(x[-1] - x[0]) or 1.0
    column = np.minimum((columns * (x - x[0]) / span).astype(np.intp), columns - 1)
    starts = np.flatnonzero(np.r_[True, column[1:] != column[:-1]])
    stops = np.r_[starts[1:], x.size]
    keep: set[int] = set()
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        part = y[start:stop]
        keep |= {start, start + int(part.argmin()), start + int(part.argmax()), stop - 1}
    index = np.array(sorted(keep), dtype=np.intp)
    return x[index], y[index]


class Plot:
    """One plot: add lines, points and spans, then ask for ``html()``.

    Parameters
    ----------
    x_range, y_range : tuple of float
        Data range of the axes; a degenerate range is widened.
    x_label, y_label : str
        Axis titles, with units.
    title : str
        Accessible name of the picture.
    height : int
        Height in px; ignored when ``square``.
    log_x, log_y : bool
        Logarithmic axes (ranges must be positive).
    square : bool
        Keep width and height equal, for state spaces and the unit circle.
    narrow : bool
        Fewer marks on the x axis, for plots side by side.
    hover : bool
        Let the reader read values off with the pointer.
    """

    def __init__(
        self,
        x_range: tuple[float, float],
        y_range: tuple[float, float],
        *,
        x_label: str = "",
        y_label: str = "",
        title: str = "",
        height: int = 220,
        log_x: bool = False,
        log_y: bool = False,
        square: bool = False,
        narrow: bool = False,
        hover: bool = True,
    ) -> None:
        self.x_range, self.y_range = _widened(x_range, log_x), _widened(y_range, log_y)
        self.x_label, self.y_label, self.title = x_label, y_label, title
        self.height, self.log_x, self.log_y = height, log_x, log_y
        self.square, self.narrow, self.hover = square, narrow, hover
        self._shapes: list[str] = []
        self._notes: list[str] = []
        self._legend: dict[str, tuple[str, str]] = {}

    def line(
        self,
        x: ArrayLike,
        y: ArrayLike,
        kind: str,
        label: str = "",
        *,
        max_gap: float = math.inf,
        ordered: bool = True,
        read: bool = True,
    ) -> Plot:
        """Draw a line; it breaks at missing values and at gaps wider than ``max_gap``."""
        x_T, y_T = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        good = np.isfinite(x_T) & np.isfinite(y_T)
        breaks = ~good[1:] | ~good[:-1]
        if ordered:
            breaks = breaks | (np.diff(x_T) > max_gap)
        path: list[str] = []
        for part in np.split(np.arange(x_T.size), np.flatnonzero(breaks) + 1):
            part = part[good[part]]
            if part.size:
                xs, ys = x_T[part], y_T[part]
                if ordered:
                    columns = max(4, math.ceil(_COLUMNS * part.size / x_T.size))
                    xs, ys = reduce_line(xs, ys, columns)
                path.append(self._polyline(xs, ys))
        hover = f' data-read="{escape(label)}"' if label and ordered and read else ""
        self._shapes.append(f'<path class="line {kind}"{hover} d="{"".join(path)}"/>')
        return self._listed(label, kind, "line")

    def band(
        self, x: ArrayLike, low: ArrayLike, high: ArrayLike, kind: str, label: str = ""
    ) -> Plot:
        """Fill between two lines over the same, increasing ``x``."""
        x_T, low_T, high_T = (np.asarray(a, dtype=np.float64) for a in (x, low, high))
        outline = self._polyline(np.r_[x_T, x_T[::-1]], np.r_[high_T, low_T[::-1]])
        self._shapes.append(f'<path class="band {kind}" d="{outline}Z"/>')
        return self._listed(label, kind, "band")

    def bars(self, edges: ArrayLike, counts: ArrayLike, kind: str, label: str = "") -> Plot:
        """Draw a histogram from its ``n + 1`` edges and ``n`` counts."""
        edge_list = np.asarray(edges, dtype=np.float64)
        path = []
        for left, right, count in zip(edge_list, edge_list[1:], np.asarray(counts), strict=False):
            if count > 0:
                left, right = left + 0.1 * (right - left), right - 0.1 * (right - left)
                xs, ys = (
                    [left, left, right, right],
                    [self.y_range[0], count, count, self.y_range[0]],
                )
                path.append(self._polyline(np.array(xs), np.array(ys, dtype=np.float64)) + "Z")
        self._shapes.append(f'<path class="bars {kind}" d="{"".join(path)}"/>')
        return self._listed(label, kind, "band")

    def span(self, start: float, stop: float, kind: str, label: str = "", note: str = "") -> Plot:
        """Shade everything between two x values; ``note`` is written at its top."""
        low, high = self.x_range
        start, stop = max(start, low), min(stop, high)
        if stop <= start:
            return self
        left, right = self._u(start), self._u(stop)
        self._shapes.append(
            f'<rect class="span {kind}" x="{left:.1f}" y="0" '
            f'width="{max(right - left, 1.0):.1f}" height="1000"/>'
        )
        if note:
            self._notes.append(
                f'<span class="note" style="left:{left / 10:.2f}%">{escape(note)}</span>'
            )
        return self._listed(label, kind, "band")

    def rule(self, x: float, kind: str, note: str = "") -> Plot:
        """Draw a vertical rule with a note at its top."""
        if self.x_range[0] <= x <= self.x_range[1]:
            u = self._u(x)
            self._shapes.append(f'<path class="rule {kind}" d="M{u:.1f} 0V1000"/>')
            if note:
                side = " before" if u > 700 else ""
                self._notes.append(
                    f'<span class="note{side}" style="left:{u / 10:.2f}%">{escape(note)}</span>'
                )
        return self

    def level(self, y: float, kind: str) -> Plot:
        """Draw a horizontal rule."""
        if self.y_range[0] <= y <= self.y_range[1]:
            self._shapes.append(f'<path class="rule {kind}" d="M0 {self._v(y):.1f}H1000"/>')
        return self

    def points(
        self, x: ArrayLike, y: ArrayLike, kind: str, label: str = "", *, hollow: bool = False
    ) -> Plot:
        """Draw discs (or rings when ``hollow``)."""
        xs, ys = np.atleast_1d(np.asarray(x, float)), np.atleast_1d(np.asarray(y, float))
        dots = "".join(
            f"M{self._u(a):.1f} {self._v(b):.1f}h0"
            for a, b in zip(xs, ys, strict=True)
            if self.x_range[0] <= a <= self.x_range[1] and self.y_range[0] <= b <= self.y_range[1]
        )
        self._shapes.append(f'<path class="dot {kind}" d="{dots}"/>')
        if hollow:
            self._shapes.append(f'<path class="dot hole" d="{dots}"/>')
        return self._listed(label, kind, "ring" if hollow else "disc")

    def cloud(self, x: ArrayLike, y: ArrayLike, kind: str, label: str = "") -> Plot:
        """Draw many small points in one path."""
        xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        good = np.isfinite(xs) & np.isfinite(ys)
        dots = "".join(
            f"M{self._u(a):.0f} {self._v(b):.0f}h0" for a, b in zip(xs[good], ys[good], strict=True)
        )
        self._shapes.append(f'<path class="speck {kind}" d="{dots}"/>')
        return self._listed(label, kind, "disc")

    def html(self, *, legend: bool = True) -> str:
        """The finished plot as one HTML figure body."""
        x_ticks = _ticks(self.x_range, self.log_x, 3 if self.narrow else 6)
        y_ticks = _ticks(self.y_range, self.log_y, 4 if self.height < 160 else 5)
        grid = "".join(f"M0 {self._v(y):.1f}H1000" for y in y_ticks)
        x_marks = "".join(
            f'<span class="tick x{" extra" if i % 2 else ""}" style="left:{self._u(t) / 10:.2f}%">'
            f"{number(t, 6)}</span>"
            for i, t in enumerate(x_ticks)
        )
        y_marks = "".join(
            f'<span class="tick y" style="top:{self._v(t) / 10:.2f}%">{number(t, 6)}</span>'
            for t in y_ticks
        )
        attributes = ""
        if self.hover:
            ranges = " ".join(repr(float(r)) for r in (*self.x_range, *self.y_range))
            attributes = f' data-ranges="{ranges}" data-log="{int(self.log_x)}{int(self.log_y)}"'
            attributes += f' data-xlabel="{escape(self.x_label)}"'
        keys = "".join(
            f'<li><i class="key {shape} {kind}"></i>{escape(label)}</li>'
            for label, (kind, shape) in self._legend.items()
        )
        size = ' style="aspect-ratio:1"' if self.square else f' style="height:{self.height}px"'
        return (
            (f'<ul class="legend">{keys}</ul>' if keys and legend else "")
            + (f'<div class="ylabel">{escape(self.y_label)}</div>' if self.y_label else "")
            + f'<div class="plot{" noted" if self._notes else ""}">'
            + f'<div class="area"{size}{attributes}>'
            + f'<svg viewBox="0 0 1000 1000" preserveAspectRatio="none" role="img" '
            f'aria-label="{escape(self.title or self.y_label)}">'
            f'<path class="grid" d="{grid}"/>{"".join(self._shapes)}</svg>'
            + y_marks
            + x_marks
            + "".join(self._notes)
            + "</div></div>"
            + (f'<div class="xlabel">{escape(self.x_label)}</div>' if self.x_label else "")
        )

    def _listed(self, label: str, kind: str, shape: str) -> Plot:
        if label:
            self._legend.setdefault(label, (kind, shape))
        return self

    def _u(self, x: float) -> float:
        return float(_scaled(np.array(x), self.x_range, self.log_x))

    def _v(self, y: float) -> float:
        return _BOX - float(_scaled(np.array(y), self.y_range, self.log_y))

    def _polyline(self, x: Array, y: Array) -> str:
        u = _scaled(x, self.x_range, self.log_x)
        v = _BOX - _scaled(y, self.y_range, self.log_y)
        pairs = " ".join(f"{a:.1f} {b:.1f}" for a, b in zip(u, v, strict=True))
        return f"M{pairs}" if x.size > 1 else f"M{pairs}h.1"


def padded(values: Any, share: float = 0.05) -> tuple[float, float]:
    """Range of all finite values with a margin, for an axis.

    Examples
    --------
    >>> padded([0.0, 1.0, float("nan")], share=0.1)
    (-0.1, 1.1)
    """
    parts = values if isinstance(values, (list, tuple)) else [values]
    flat = np.concatenate([np.ravel(np.asarray(part, dtype=np.float64)) for part in parts])
    flat = flat[np.isfinite(flat)]
    if not flat.size:
        return 0.0, 1.0
    low, high = float(flat.min()), float(flat.max())
    margin = share * (high - low)
    return low - margin, high + margin


def _widened(limits: tuple[float, float], log: bool) -> tuple[float, float]:
    low, high = float(limits[0]), float(limits[1])
    if not (math.isfinite(low) and math.isfinite(high)):
        return (0.1, 1.0) if log else (0.0, 1.0)
    if log:
        high = high if high > 0 else 1.0
        low = low if 0 < low < high else high / 1e3
        return low, high
    return (low, high) if high > low else (low - 0.5 - abs(low), low + 0.5 + abs(low))


def _ticks(limits: tuple[float, float], log: bool, count: int) -> list[float]:
    if log and math.log10(limits[1] / limits[0]) >= 1.5:
        return nice_decades(*limits, count)
    return nice_ticks(*limits, count)


def _scaled(values: Array, limits: tuple[float, float], log: bool) -> Array:
    low, high = limits
    if log:
        share = np.log(np.maximum(values, low * 1e-6) / low) / math.log(high / low)
    else:
        share = (values - low) / (high - low)
    scaled: Array = np.clip(share, -2.0, 3.0) * _BOX
    return scaled
